"""Keyfold in Dagster: assets, checks, automation, resources and pages."""
