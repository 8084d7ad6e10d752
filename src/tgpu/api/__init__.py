"""The APIs of the service: REST, WebSocket and gRPC."""
