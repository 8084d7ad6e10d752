"""Who calls: API keys, tokens and Unix peers; and which role may use which path."""
