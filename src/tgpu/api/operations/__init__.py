"""What REST and gRPC both do for a caller."""
