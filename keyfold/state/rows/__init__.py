"""Rows of state: as lines, by key, and cast exactly."""
