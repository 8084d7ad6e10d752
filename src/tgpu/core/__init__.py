"""The pure core: values and functions, no clock, no I/O, no randomness. See README.md here."""
