"""The peer of a connection: the local process that the kernel names.

Shared by everything that listens: the service's doors and the gateway.
"""
