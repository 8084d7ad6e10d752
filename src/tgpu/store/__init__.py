"""Stores: in memory, SQLite or PostgreSQL."""
