"""Programs of the operator around each attempt: prolog before it, epilog behind it."""
