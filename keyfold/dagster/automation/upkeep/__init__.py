"""Maintain tables, check the lakehouse, and purge Dagster's history."""
