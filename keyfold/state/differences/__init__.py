"""Compare two states, a state and a table, or two tables."""
