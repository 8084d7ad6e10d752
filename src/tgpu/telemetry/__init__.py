"""Telemetry: Prometheus metrics, and log lines of jobs and requests."""
