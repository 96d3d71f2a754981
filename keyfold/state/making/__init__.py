"""Make state of a table."""
