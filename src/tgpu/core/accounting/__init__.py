"""Usage of tenants, users and jobs: meters, budgets, receipts, deadlines and wait targets."""
