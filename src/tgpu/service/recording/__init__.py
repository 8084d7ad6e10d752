"""The one writer: decisions become a commit with its audit row, then the state."""
