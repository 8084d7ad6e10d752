"""Generated input at every door: REST, its streams, gRPC, and the supervisor's socket.

A short, repeatable run is part of `make test`; `make fuzz` draws anew, and as much as it is told.
"""
