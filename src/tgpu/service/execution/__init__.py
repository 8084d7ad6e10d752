"""Carries decisions out on the engine, and reconciles with what it reports."""
