"""Where the workers of a job go, all of them or none."""
