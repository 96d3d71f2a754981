"""A small enrichment service for demos and tests, which can simulate failures."""
