"""What is used up: metered with each commit, held against budgets, put on receipts."""
