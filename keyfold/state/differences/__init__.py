"""Compare two states, or a state and a table."""
