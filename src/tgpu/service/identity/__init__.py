"""Identity of callers, their permissions, and the local user their jobs run as."""
