"""A terminal in a job: the process that holds it there, and whoever sits in front of it."""
