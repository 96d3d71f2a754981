"""Kafka topics: their state (`topic`), the offsets to read next (`offsets`), and reading messages (`messages`)."""
