"""The doors of the service: REST now, gRPC and WebSocket beside it."""
