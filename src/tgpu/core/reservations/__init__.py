"""Capacity kept free: for reservations people made, and for jobs whose turn it is."""
