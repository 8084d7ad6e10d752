"""Commands in front of a job: run, lease, shell, attach."""
