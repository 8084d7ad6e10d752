"""Commands about tenants, queues, quotas, budgets, shares and keys."""
