"""Read state: of jobs, and of any Spark checkpoint."""
