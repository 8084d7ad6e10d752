"""Owns the state: commands come in, become events, are recorded, then applied and acted on."""
