"""Run batches on Spark: read events, call the step, write tables, commit."""
