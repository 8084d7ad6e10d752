"""What can be said to somebody whose job waits: the reason, who is in its way, what would help."""
