"""Keyfold's Spark side: streams, ingest, the keyed engine and its jobs. Knows neither Dagster nor GX."""
