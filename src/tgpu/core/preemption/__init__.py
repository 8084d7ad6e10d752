"""Which running jobs are preempted for which others, and the sentences about it."""
