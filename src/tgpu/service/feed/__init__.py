"""Every recorded change for those who watch."""
