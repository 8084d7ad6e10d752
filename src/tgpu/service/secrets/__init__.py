"""Secrets of jobs: encrypted at rest, masked in what is shown."""
