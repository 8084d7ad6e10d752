"""What the service shows of itself: Prometheus metrics, and log lines of jobs and requests."""
