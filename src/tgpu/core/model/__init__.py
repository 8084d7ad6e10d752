"""Values: jobs, nodes, tenants, events, plans. No scheduling rules."""
