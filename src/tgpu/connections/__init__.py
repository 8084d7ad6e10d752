"""Connections as something that can run out: who may hold how many, and for how long.

Shared by everything that listens for HTTP: the service, its metrics port and the gateway.
"""
