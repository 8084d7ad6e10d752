"""Mechanism without opinions: who may start, and where."""
