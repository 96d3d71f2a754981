"""Call a job's step, in the same way on Spark and in tests."""
