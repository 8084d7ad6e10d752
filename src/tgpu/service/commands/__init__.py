"""What callers can change: jobs, selections of jobs, tenants, queues, reservations."""
