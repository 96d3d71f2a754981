"""Keyfold's Spark side: streams, ingest, the keyed engine and its jobs. Knows neither Dagster nor GX."""

from spark_jobs.shipped import check_worker

# Here, and not in a first task alone: executors come and go while an application runs.
check_worker(__loader__)
