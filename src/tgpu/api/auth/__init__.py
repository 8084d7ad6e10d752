"""Authentication by API keys, tokens and Unix peers; authorization by role and path."""
