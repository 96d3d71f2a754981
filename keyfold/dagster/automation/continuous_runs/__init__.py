"""Continuous runs outside of Dagster, as external assets."""
