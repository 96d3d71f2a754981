"""Maintenance, checks of the lakehouse, and Dagster's own history."""
