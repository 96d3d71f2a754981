"""A small enrichment service that works, and fails on demand: for demos and tests."""
