"""The jobs file: its text format, and the command that a line of it runs."""
