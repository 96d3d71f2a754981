"""Erase values from all states, tables and records of a lakehouse."""
