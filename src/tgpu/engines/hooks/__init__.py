"""The operator's programs around each attempt: prolog before it, epilog after it."""
