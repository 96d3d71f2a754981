"""Enrich events by an external service: the job, the protocol of the service, and the client."""
