"""Placement of the workers of a job, all of them or none."""
