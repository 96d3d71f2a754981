"""Batched enrichment: the job, the protocol of the service it asks, and a client that gives up gracefully."""
