"""Limits on the number and duration of connections.

Shared by everything that listens for HTTP: the service, its metrics port and the gateway.
"""
