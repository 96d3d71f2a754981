"""Calling an external service about events: the protocol, a client that gives up gracefully, a service for demos."""
