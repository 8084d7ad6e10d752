"""What runs attempts: the local supervisor now, cluster engines beside it."""
