"""A terminal in a job: the process that holds it, and the client connected to it."""
