"""Duties at intervals, next to the scheduling: clock, disk, learnt profiles, limits."""
