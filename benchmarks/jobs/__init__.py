"""Each job beside a plain computation of the same answer, without Spark: `python -m benchmarks.jobs.<job>`."""
