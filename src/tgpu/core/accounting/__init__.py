"""What tenants, users and jobs have had: meters, budgets, receipts, promises about time."""
