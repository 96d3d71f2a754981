"""A batch on Spark: read, call the step, write, commit."""
