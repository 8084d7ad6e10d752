"""A typed client of the REST API, and the means to find or start the service of one user."""
