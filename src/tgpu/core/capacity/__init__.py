"""What is taken and what is free: the ledger, and nodes grouped so that a search is cheap."""
