"""Projection of the queue: when jobs will start, and how certain that is."""
