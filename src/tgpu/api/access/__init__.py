"""Who may see and claim what."""
