"""Read the state of jobs, and of any Spark checkpoint."""
