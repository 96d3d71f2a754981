"""Compare each job with a plain computation of the same result, without Spark: `python -m benchmarks.jobs.<job>`."""
