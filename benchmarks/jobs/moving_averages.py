"""Moving averages of a million readings beside Polars' own rolling mean: `python -m benchmarks.jobs.moving_averages`.

Both get the same table of readings in the order of their time, stations among each other, and give the same rows. The
job takes it as a micro-batch and closes it with a second one; Polars needs it whole, in order, and once.
"""

import argparse
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.jobs.measure import compare
from keyfold.keyed.harness import TestHarness
from keyfold.keyed.parameters import build_job
from spark_jobs.jobs.moving_averages.job import MOVING_AVERAGES

START = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs.moving_averages", description=__doc__)
    parser.add_argument("--stations", type=int, default=500)
    parser.add_argument("--hours", type=int, default=2000)
    parser.add_argument("--n-readings", type=int, default=10)
    arguments = parser.parse_args()
    readings = simulate(arguments.stations, arguments.hours)
    job = build_job(MOVING_AVERAGES, {"n_readings": arguments.n_readings})
    end = START + HOUR * arguments.hours

    def ours() -> pl.DataFrame:
        harness = TestHarness(job)
        harness.batch(readings)
        harness.batch(advance_to=end)
        return harness.written["moving_averages"]

    def theirs() -> pl.DataFrame:
        return roll(readings, arguments.n_readings)

    assert_frame_equal(ours(), theirs(), check_row_order=False, abs_tol=1e-9)  # the race is about one answer
    compare(f"moving_averages, window of {arguments.n_readings}", readings.height, ours, theirs)


def simulate(stations: int, hours: int) -> pl.DataFrame:
    """Hourly readings of many stations in the order of their time; one pressure in ten is missing."""
    chance = np.random.default_rng(7)
    rows = stations * hours
    return pl.DataFrame(
        {
            "station_id": pl.Series(np.tile(np.arange(stations), hours)).cast(pl.String).str.zfill(4),
            "time": pl.Series(np.repeat(np.arange(hours), stations) * 3_600_000_000).cast(pl.Duration("us")) + START,
            "pressure": pl.Series(chance.normal(1013, 8, rows)).set(pl.Series(chance.random(rows) < 0.1), None),
            "temp": chance.normal(55, 15, rows),
        }
    )


def roll(readings: pl.DataFrame, length: int) -> pl.DataFrame:
    """The same rows of readings that already lie in the order of time, none of which comes late or after a silence."""
    mean = pl.col("pressure", "temp").rolling_mean(length, min_samples=1).over("station_id").name.suffix("_avg")
    rolled = readings.select(
        "station_id",
        start_time=pl.col("time").shift(length - 1).over("station_id"),
        end_time="time",
    ).with_columns(readings.select(mean))
    return rolled.filter(pl.col("start_time").is_not_null()).with_columns(
        n_readings=pl.lit(length, pl.Int64), reason=pl.lit("WINDOW_FULL")
    )


if __name__ == "__main__":
    main()
