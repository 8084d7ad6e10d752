"""Commands about settings: of the service, and those users chose for themselves."""
