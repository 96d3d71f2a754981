"""Kafka topics: what they hold (`topic`), which offsets are read next (`offsets`), and the reading of them (`messages`)."""
