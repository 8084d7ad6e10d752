"""Usage: metered with each commit, checked against budgets, shown on receipts."""
