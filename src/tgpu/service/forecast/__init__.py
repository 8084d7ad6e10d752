"""Forecasts: run times, start times, model sizes."""
