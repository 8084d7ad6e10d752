"""Values: jobs, nodes, tenants, what can happen, what a cycle may decide. No rules about when."""
