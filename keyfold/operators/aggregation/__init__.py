"""Operators that aggregate: windows, sessions, totals, running aggregates, and chosen rows of keys."""
