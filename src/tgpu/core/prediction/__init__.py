"""Predictions from past jobs: run times, and the GPUs that a model needs."""
