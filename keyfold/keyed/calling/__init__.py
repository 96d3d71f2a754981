"""The one caller of a job's step, on Spark and without it."""
