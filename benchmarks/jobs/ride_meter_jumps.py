"""`python -m benchmarks.jobs.ride_meter_jumps`: compare the job with a plain sort and shift of all ride points."""

from datetime import UTC, datetime, timedelta

import polars as pl

from benchmarks.jobs.measure import batches_of, compare, require_same
from keyfold import TestHarness, build_job
from spark_jobs.jobs.ride_meter_jumps import RIDE_METER_JUMPS
from spark_jobs.simulation.rides import ride_points_table

RIDES, POINTS = 20_000, 50
JUMP = 0.1
"""Small enough that a third of all steps are jumps, so that writing results is measured too."""


def main() -> None:
    points = ride_points_table(RIDES, POINTS, seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
    columns = ["ride_id", "first_point_idx"]
    require_same(keyfold([points]).sort(columns), plain(points).sort(columns))
    for batches in (1, 10):
        cut = batches_of(points, batches)
        compare(
            f"ride_meter_jumps, {batches} micro-batch(es)",
            points.height,
            lambda cut=cut: keyfold(cut),
            lambda: plain(points),
        )


def keyfold(batches: list[pl.DataFrame]) -> pl.DataFrame:
    job = build_job(RIDE_METER_JUMPS, {"jump": JUMP})
    harness = TestHarness(job)
    for batch in batches:
        harness.batch(batch.select(job.events.names))
    harness.batch(advance_to=harness.watermark + timedelta(days=1))
    return harness.written["ride_meter_jumps"]


def plain(points: pl.DataFrame) -> pl.DataFrame:
    reading = points.select("ride_id", "point_idx", "timestamp", "meter_reading").filter(
        pl.col("meter_reading").is_not_null()
    )
    told = reading.sort("ride_id", "timestamp", "point_idx").with_columns(
        pl.col("timestamp", "point_idx", "meter_reading").shift().over("ride_id").name.prefix("first_")
    )
    soon = pl.col("timestamp") - pl.col("first_timestamp") <= timedelta(minutes=1)
    return told.filter(soon & (pl.col("meter_reading") - pl.col("first_meter_reading") > JUMP)).select(
        "ride_id",
        pl.lit("jump").alias("pattern"),
        pl.col("first_timestamp").alias("first_time"),
        pl.col("timestamp").alias("last_time"),
        "first_point_idx",
        pl.col("point_idx").alias("last_point_idx"),
        "first_meter_reading",
        pl.col("meter_reading").alias("last_meter_reading"),
    )


if __name__ == "__main__":
    main()
