"""Keyfold: stateful, per-key stream processing with PySpark, run as Dagster assets."""

from keyfold.shipped import check_worker

# Here, and not in a first task alone: executors come and go while an application runs.
check_worker(__loader__)
