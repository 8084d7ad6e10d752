"""Reserved capacity: advance reservations, backfill reservations and nominations."""
