"""Compare fleet days of a million points with a plain Polars query: `python -m benchmarks.jobs.fleet_days`.

The job gets the points of all vehicles in order of time, and closes all days with a second batch. The query gets the whole
table sorted by vehicle and time. Both return the same days, with legs split at midnight.
"""

import argparse
from datetime import timedelta

import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.jobs.measure import compare
from benchmarks.jobs.vehicle_trips import MOVING_SPEED, SILENCE, START, STOP_AFTER, simulate
from keyfold import TestHarness, build_job
from spark_jobs.jobs.fleet_days.job import FLEET_DAYS
from spark_jobs.jobs.great_circle import great_circle_metres


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs.fleet_days", description=__doc__)
    parser.add_argument("--vehicles", type=int, default=200)
    parser.add_argument("--points", type=int, default=5000, help="of each vehicle")
    arguments = parser.parse_args()
    ready = simulate(arguments.vehicles, arguments.points)
    arriving = ready.sort("time")
    for batches in (1, 10):
        size = -(-ready.height // batches)
        parts = list(arriving.iter_slices(size))
        found, expected = keyfold(parts).sort("vehicle_id", "day"), query(ready).sort("vehicle_id", "day")
        assert_frame_equal(found.select(expected.columns), expected, abs_tol=1e-3)
        compare(
            f"fleet_days, {found.height:,} days, {batches} micro-batch(es)",
            ready.height,
            lambda parts=parts: keyfold(parts),
            lambda: query(ready),
        )


def keyfold(batches: list[pl.DataFrame]) -> pl.DataFrame:
    job = build_job(FLEET_DAYS)
    harness = TestHarness(job)
    for batch in batches:
        harness.batch(batch.select(job.events.names))
    harness.batch(advance_to=START + timedelta(days=3650))
    return harness.written["fleet_days"].filter(~pl.col("is_open"))


def query(points: pl.DataFrame) -> pl.DataFrame:
    """The days of a complete table of points, sorted by vehicle and time: gaps and islands, cut at midnight."""
    time, moves = pl.col("time"), pl.col("moves")
    begins = (pl.col("vehicle_id") != pl.col("vehicle_id").shift()) | (time - time.shift() > SILENCE)
    rows = points.with_columns(moves=pl.col("speed") > MOVING_SPEED, begins=begins.fill_null(value=True)).with_columns(
        run=(pl.col("begins") | (moves != moves.shift())).cum_sum() - 1, way=pl.col("begins").cum_sum()
    )
    runs = rows.group_by("run", maintain_order=True).agg(moves.first(), pl.col("begins").first(), time.first())
    joined, followed = ~pl.col("begins"), ~pl.col("begins").shift(-1, fill_value=True)
    pause = (~moves & joined & followed & (time.shift(-1) - time < STOP_AFTER)).fill_null(value=False)
    runs = runs.with_columns(pause=pause)
    opens = moves & ~(pl.col("pause").shift(fill_value=False) & joined)
    runs = runs.with_columns(opens=opens)
    burnt = (pl.col("fuel_level").forward_fill().over("way").shift() - pl.col("fuel_level")).clip(lower_bound=0)
    is_first = pl.col("run") != pl.col("run").shift(fill_value=-1)
    legs = rows.with_columns(
        pause=runs["pause"].gather(rows["run"]),
        trip=is_first.cast(pl.Int64) * runs["opens"].gather(rows["run"]).cast(pl.Int64),
        burnt=pl.when(pl.col("way") == pl.col("way").shift()).then(burnt),
        day=time.dt.date(),
        until=pl.when(~pl.col("begins").shift(-1, fill_value=True)).then(time.shift(-1)),
        metres=great_circle_metres(
            pl.col("latitude"), pl.col("longitude"), pl.col("latitude").shift(-1), pl.col("longitude").shift(-1)
        ),
    )
    midnight = (pl.col("day") + timedelta(days=1)).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    crosses = (pl.col("until") >= midnight).fill_null(value=False)
    parts = legs.with_columns(midnight=midnight, crosses=crosses)
    here = pl.when("crosses").then("midnight").otherwise("until") - time
    after = parts.filter("crosses").select(
        "vehicle_id",
        day=pl.col("day") + timedelta(days=1),
        seconds=_seconds(pl.col("until") - pl.col("midnight")),
        metres=pl.col("metres") * _seconds(pl.col("until") - pl.col("midnight")) / _seconds(pl.col("until") - time),
        moves="moves",
        pause="pause",
        trip=pl.lit(0, pl.Int64),
        burnt=pl.lit(None, pl.Float64),
        fuel_level=pl.lit(None, pl.Float64),
        n=pl.lit(0, pl.Int64),
    )
    on = parts.select(
        "vehicle_id",
        "day",
        seconds=_seconds(here).fill_null(0),
        metres=pl.when(pl.col("until") > time)
        .then(pl.col("metres") * _seconds(here) / _seconds(pl.col("until") - time))
        .otherwise(0.0),
        moves="moves",
        pause="pause",
        trip="trip",
        burnt="burnt",
        fuel_level="fuel_level",
        n=pl.lit(1, pl.Int64),
    )
    of_trip = moves | pl.col("pause")
    fuel = pl.col("burnt").fill_null(0)
    return (
        pl.concat([on, after])
        .group_by("vehicle_id", "day")
        .agg(
            kilometres=pl.col("metres").filter(of_trip).sum() / 1000,
            trips=pl.col("trip").sum(),
            moving_seconds=pl.col("seconds").filter(moves).sum(),
            idle_seconds=pl.col("seconds").filter("pause").sum(),
            stopped_seconds=pl.col("seconds").filter(~of_trip).sum(),
            fuel_used=pl.when(pl.col("fuel_level").count() > 0).then(fuel.sum()),
            n_points=pl.col("n").sum(),
        )
    )


def _seconds(span: pl.Expr) -> pl.Expr:
    return span.dt.total_microseconds() / 1e6


if __name__ == "__main__":
    main()
