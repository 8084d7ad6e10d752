"""Where facts are kept: in memory, or durably in SQLite."""
