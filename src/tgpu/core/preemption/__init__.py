"""Which running jobs are preempted for which others, and how that is said."""
