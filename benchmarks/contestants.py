"""Ride summaries in two ways, over the same Delta table of points, with the same micro-batches and state store.

- `keyfold`: the job as shipped, with distance and fare.
- `native`: Spark's windowed aggregation per ride: count, first and last time, first and last status, fare. Distance cannot be
  expressed, and a tumbling window of an hour replaces the end of a ride.
"""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keyfold import Lakehouse, build_job
from keyfold.keyed.runner import RunOptions, run_job
from spark_jobs.jobs.registry import JOBS

BATCH_BYTES = f"{RunOptions().max_bytes_per_batch}b"


def keyfold(spark: SparkSession, home: Path) -> int:
    """Run the shipped job, and return the number of rows written, as both contestants do."""
    job = build_job(JOBS["ride_summaries"])
    return run_job(spark, Lakehouse(home), job).counts.rows["ride_summaries"]


def native(spark: SparkSession, home: Path) -> int:
    reader = spark.readStream.format("delta").option("maxBytesPerTrigger", BATCH_BYTES)
    summaries = (
        reader.load(str(Lakehouse(home).events("ride_points")))
        .withWatermark("timestamp", "10 minutes")
        .groupBy(F.window("timestamp", "1 hour"), "ride_id")
        .agg(
            F.min("timestamp").alias("start_time"),
            F.max("timestamp").alias("end_time"),
            F.count("*").alias("n_points"),
            F.max("meter_reading").alias("fare"),
            F.min_by("ride_status", "timestamp").alias("start_status"),
            F.max_by("ride_status", "timestamp").alias("end_status"),
        )
        .drop("window")
    )
    writer = summaries.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(home / "checkpoint")).start(str(home / "out"))
    query.awaitTermination()
    return spark.read.format("delta").load(str(home / "out")).count()


CONTESTANTS: dict[str, Callable[[SparkSession, Path], int]] = {"keyfold": keyfold, "native": native}
