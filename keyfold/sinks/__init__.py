"""Sinks: rows of tables are sent to other systems after they are committed."""
