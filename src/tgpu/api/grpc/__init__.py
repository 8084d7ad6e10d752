"""gRPC: the same commands and objects as REST, as `wire/scheduler.proto` describes them."""
