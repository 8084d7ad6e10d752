"""Whether jobs may start at all: caps, quotas, and what a cohort lends."""
