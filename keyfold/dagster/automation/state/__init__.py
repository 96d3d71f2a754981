"""State tools as Dagster jobs, and open keys as assets."""
