"""`python -m benchmarks.jobs.event_index`: the job beside one plain sort and count of all ride points, and in windows."""

from datetime import UTC, datetime, timedelta

import polars as pl

from benchmarks.jobs.made_sales import batches_of
from benchmarks.jobs.measure import compare, require_same
from keyfold.keyed.harness import TestHarness
from keyfold.keyed.parameters import build_job
from spark_jobs.jobs.event_index import EVENT_INDEX
from spark_jobs.simulation.rides import ride_points_table

RIDES, POINTS = 20_000, 50
WINDOW = "1h every 15m"


def main() -> None:
    points = ride_points_table(RIDES, POINTS, seed=1, start=datetime(2026, 1, 1, tzinfo=UTC))
    require_same(keyfold([points]).sort("ride_id", "event_index"), plain(points))
    for batches in (1, 10):
        cut = batches_of(points, batches)
        compare(
            f"event_index, {batches} micro-batch(es)",
            points.height,
            lambda cut=cut: keyfold(cut),
            lambda: plain(points),
        )
    few = points.head(RIDES * POINTS // 4)
    keys = ["ride_id", "window_start", "event_index"]
    require_same(keyfold([few], WINDOW).sort(keys), plain_in_windows(few).sort(keys))
    compare(
        f"event_index in windows of {WINDOW}", few.height, lambda: keyfold([few], WINDOW), lambda: plain_in_windows(few)
    )


def keyfold(batches: list[pl.DataFrame], window: str | None = None) -> pl.DataFrame:
    harness = TestHarness(build_job(EVENT_INDEX, {"window": window}))
    for batch in batches:
        harness.batch(batch)
    harness.batch(advance_to=harness.watermark + timedelta(days=1))
    return harness.written["event_index"]


def plain(points: pl.DataFrame) -> pl.DataFrame:
    others = [name for name in points.columns if name not in ("ride_id", "timestamp")]
    ordered = points.sort("ride_id", "timestamp", *others)
    return ordered.with_columns(event_index=pl.int_range(pl.len(), dtype=pl.Int64).over("ride_id"))


def plain_in_windows(points: pl.DataFrame) -> pl.DataFrame:
    latest = pl.col("timestamp").dt.truncate("15m")
    starts = pl.concat_list(latest - timedelta(minutes=15 * number) for number in range(4))
    copies = points.with_columns(window_start=starts).explode("window_start")
    copies = copies.with_columns(window_end=pl.col("window_start") + timedelta(hours=1))
    others = [name for name in points.columns if name not in ("ride_id", "timestamp")]
    ordered = copies.sort("ride_id", "window_start", "timestamp", *others)
    return ordered.with_columns(event_index=pl.int_range(pl.len(), dtype=pl.Int64).over("ride_id", "window_start"))


if __name__ == "__main__":
    main()
