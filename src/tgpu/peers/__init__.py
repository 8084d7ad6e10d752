"""Who is at the other end of a connection: the process of this machine that the kernel names.

Shared by everything that listens: the service's doors and the gateway.
"""
