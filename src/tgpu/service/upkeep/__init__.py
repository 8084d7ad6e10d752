"""Periodic tasks: clock, disk, request profiles, borrowing limits."""
