"""Commands that queue jobs, and the forms jobs are written in."""
