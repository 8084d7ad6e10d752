"""Many plain jobs in one body: lists, lines and tables."""
