"""Commands about settings: those of the service, and a user's own defaults."""
