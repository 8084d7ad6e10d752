"""What a job is given in secret: sealed at rest, kept out of what is told."""
