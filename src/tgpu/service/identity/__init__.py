"""Who calls, what they may do, and which local user their jobs run as."""
