"""Execute the middle of a batch: a map, a shuffle by state partition, and a map. On Spark, or in this process."""

from typing import Any

from keyfold.runners.runner import Runner


def runner_of(spark: Any) -> Runner:
    """Return the runner of a Spark session; the stand-in for a session in `keyfold.testing` brings its own."""
    if (own := getattr(spark, "runner", None)) is not None:
        return own
    from keyfold.runners.spark_runner import SparkRunner  # noqa: PLC0415 - imports pyspark

    return SparkRunner(spark)
