"""Ride summaries in four ways, over the same Delta table of points, with the same micro-batches and state store.

- `keyfold`: the job as shipped, with distance and fare.
- `native`: Spark's windowed aggregation per ride: count, first and last time, first and last status, fare. Distance cannot be
  expressed, and a tumbling window of an hour replaces the end of a ride.
- `native_lean`: the same without the two statuses, so that Spark can use hash aggregation.
- `stock`: transformWithState in row mode as in Spark's guide, with a value state and a timer per ride.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from keyfold import Lakehouse, build_job
from keyfold.keyed.runner import RunOptions, run_job
from spark_jobs.jobs.registry import JOBS

BATCH_BYTES = f"{RunOptions().max_bytes_per_batch}b"
DELAY = "10 minutes"


def keyfold(spark: SparkSession, home: Path) -> int:
    """Run the shipped job, and return the number of rows written, as all contestants do."""
    job = build_job(JOBS["ride_summaries"])
    return run_job(spark, Lakehouse(home), job).counts.rows["ride_summaries"]


def native(spark: SparkSession, home: Path) -> int:
    statuses = [
        F.min_by("ride_status", "timestamp").alias("start_status"),
        F.max_by("ride_status", "timestamp").alias("end_status"),
    ]
    return _native(spark, home, statuses)


def native_lean(spark: SparkSession, home: Path) -> int:
    return _native(spark, home, [])


def stock(spark: SparkSession, home: Path) -> int:
    points = _points(spark, home).select(
        "ride_id",
        "timestamp",
        F.unix_micros("timestamp").alias("at"),
        "latitude",
        "longitude",
        "meter_reading",
        "ride_status",
    )
    summaries = (
        points.withWatermark("timestamp", DELAY)
        .groupBy("ride_id")
        .transformWithState(StockProcessor(), STOCK_SUMMARY, "Append", "EventTime")
    )
    return _write(spark, summaries, home)


CONTESTANTS: dict[str, Callable[[SparkSession, Path], int]] = {
    "keyfold": keyfold,
    "native": native,
    "native_lean": native_lean,
    "stock": stock,
}

STOCK_STATE = StructType(
    [
        StructField("start", LongType()),
        StructField("end", LongType()),
        StructField("start_status", StringType()),
        StructField("end_status", StringType()),
        StructField("n_points", IntegerType()),
        StructField("latitude", DoubleType()),
        StructField("longitude", DoubleType()),
        StructField("distance", DoubleType()),
        StructField("fare", DoubleType()),
    ]
)
STOCK_SUMMARY = StructType([StructField("ride_id", StringType()), *STOCK_STATE.fields])
TIMEOUT_IN_MS = 30 * 60 * 1000


class StockProcessor(StatefulProcessor):
    """The row-mode state machine, written as in Spark's guide."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._ride = handle.getValueState("ride", STOCK_STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        stored = self._ride.get()
        ride = None if stored is None else list(stored)
        before = None if ride is None else ride[1] // 1000 + TIMEOUT_IN_MS
        for row in sorted(rows, key=lambda row: row.at):
            if ride is None:
                ride = [row.at, row.at, row.ride_status, row.ride_status, 0, row.latitude, row.longitude, 0.0, 0.0]
            ride[7] += _metres(ride[5], ride[6], row.latitude, row.longitude)
            ride[1], ride[3], ride[5], ride[6], ride[8] = (
                row.at,
                row.ride_status,
                row.latitude,
                row.longitude,
                row.meter_reading,
            )
            ride[4] += 1
        if ride is None:
            return
        if before is not None:
            self._handle.deleteTimer(before)
        if ride[3] == "dropoff":
            self._ride.clear()
            yield Row(ride_id=key[0], **dict(zip(STOCK_STATE.names, ride, strict=True)))
        else:
            self._ride.update(tuple(ride))
            self._handle.registerTimer(ride[1] // 1000 + TIMEOUT_IN_MS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        ride = self._ride.get()
        if ride is not None:
            self._ride.clear()
            yield Row(ride_id=key[0], **dict(zip(STOCK_STATE.names, ride, strict=True)))

    def close(self) -> None:
        pass


def _native(spark: SparkSession, home: Path, more: list[Column]) -> int:
    summaries = (
        _points(spark, home)
        .withWatermark("timestamp", DELAY)
        .groupBy(F.window("timestamp", "1 hour"), "ride_id")
        .agg(
            F.min("timestamp").alias("start_time"),
            F.max("timestamp").alias("end_time"),
            F.count("*").alias("n_points"),
            F.max("meter_reading").alias("fare"),
            *more,
        )
    )
    return _write(spark, summaries.drop("window"), home)


def _points(spark: SparkSession, home: Path) -> DataFrame:
    reader = spark.readStream.format("delta").option("maxBytesPerTrigger", BATCH_BYTES)
    return reader.load(str(Lakehouse(home).events("ride_points")))


def _write(spark: SparkSession, summaries: DataFrame, home: Path) -> int:
    writer = summaries.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(home / "checkpoint")).start(str(home / "out"))
    query.awaitTermination()
    return spark.read.format("delta").load(str(home / "out")).count()


def _metres(latitude: float, longitude: float, to_latitude: float, to_longitude: float) -> float:
    a, b, c, d = map(math.radians, (latitude, longitude, to_latitude, to_longitude))
    chord = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * 6_371_008.8 * math.asin(math.sqrt(chord))
