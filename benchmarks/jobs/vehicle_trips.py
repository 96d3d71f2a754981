"""Compare trips of a million points with a plain Polars query: `python -m benchmarks.jobs.vehicle_trips`.

The job gets the points of all vehicles in order of time as a micro-batch, and closes all trips with a second one. The query
gets the whole table sorted by vehicle and time. Both return the same trips and stops.
"""

import argparse
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.jobs.measure import compare
from keyfold import TestHarness, build_job
from spark_jobs.jobs.great_circle import great_circle_metres
from spark_jobs.jobs.vehicle_trips.job import VEHICLE_TRIPS
from spark_jobs.streams import TELEMETRY

START = datetime(2024, 1, 1, tzinfo=UTC)
MOVING_SPEED, STOP_AFTER, SILENCE = 3.0, timedelta(minutes=5), timedelta(minutes=30)
HARSH_BRAKING, HARSH_ACCELERATION = 3.5, 3.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs.vehicle_trips", description=__doc__)
    parser.add_argument("--vehicles", type=int, default=1000)
    parser.add_argument("--points", type=int, default=1000, help="of each vehicle")
    arguments = parser.parse_args()
    ready = simulate(arguments.vehicles, arguments.points)
    arriving = ready.sort("time")
    job = build_job(VEHICLE_TRIPS)
    end = START + timedelta(days=3650)

    def ours() -> tuple[pl.DataFrame, pl.DataFrame]:
        harness = TestHarness(job)
        harness.batch(arriving)
        harness.batch(advance_to=end)
        return harness.written["vehicle_trips"], harness.written["vehicle_stops"]

    def theirs() -> tuple[pl.DataFrame, pl.DataFrame]:
        return query(ready)

    for table, expected in zip(ours(), theirs(), strict=True):  # the race is about one answer
        order = ["vehicle_id", "start_time"]
        # Of a few metres, the rounding of fuel to microlitres shows.
        found, other = (
            one.sort(order).drop("litres_per_100_km", strict=False) for one in (table, expected.select(table.columns))
        )
        assert_frame_equal(found, other, abs_tol=1e-3)
    print(f"{ours()[0].height:,} trips, {ours()[1].height:,} stops")
    compare("vehicle_trips", ready.height, ours, theirs)


def simulate(vehicles: int, points: int) -> pl.DataFrame:
    """Points of vehicles that drive, pause, park and fall silent, about every ten seconds, by vehicle and time."""
    chance = np.random.default_rng(7)
    shape = (vehicles, points)
    driving = np.repeat(chance.random((vehicles, points // 40 + 1)) < 0.6, 40, axis=1)[:, :points]
    speed = np.where(driving, chance.uniform(0, 90, shape), chance.uniform(0, 2.5, shape))
    seconds = np.cumsum(chance.integers(1, 20, shape) + (chance.random(shape) < 0.003) * 3_000, axis=1)
    degrees = np.cumsum(speed / 3.6 * 10, axis=1) / 111_000
    fuel = 60 - np.cumsum(speed, axis=1) * 2e-4 % 50
    unread = pl.Series(chance.random(vehicles * points) < 0.3)
    return pl.DataFrame(
        {
            "vehicle_id": pl.Series(np.repeat(np.arange(vehicles), points)).cast(pl.String).str.zfill(5),
            "time": pl.Series(seconds.ravel() * 1_000_000).cast(pl.Duration("us")) + START,
            "latitude": 48 + degrees.ravel() * 0.6,
            "longitude": 11 + degrees.ravel() * 0.5,
            "speed": speed.ravel(),
            "fuel_level": pl.Series(fuel.ravel()).set(unread, None),
            "acceleration": chance.normal(0, 1.2, vehicles * points),
            "bearing": chance.uniform(0, 360, vehicles * points),
            "engine_temperature": chance.normal(90, 5, vehicles * points),
        }
    ).select(TELEMETRY.schema.names)


def query(points: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The trips and stops of a complete table of points, sorted by vehicle and time: gaps and islands."""
    time, moves = pl.col("time"), pl.col("moves")
    after_silence = (pl.col("vehicle_id") != pl.col("vehicle_id").shift()) | (time - time.shift() > SILENCE)
    rows = points.with_columns(
        moves=pl.col("speed") > MOVING_SPEED, after_silence=after_silence.fill_null(value=True)
    ).with_columns(run=(pl.col("after_silence") | (moves != moves.shift())).cum_sum() - 1)
    runs = rows.group_by("run", maintain_order=True).agg(moves.first(), pl.col("after_silence").first(), time.first())
    joined, followed = ~pl.col("after_silence"), ~pl.col("after_silence").shift(-1, fill_value=True)
    pause = ~moves & joined & followed & (time.shift(-1) - time < STOP_AFTER)
    runs = runs.with_columns(pause=pause.fill_null(value=False))
    runs = runs.with_columns(journey=(~(pl.col("pause") | pl.col("pause").shift(fill_value=False))).cum_sum())
    rows = rows.with_columns(journey=runs["journey"].gather(rows["run"]))
    burnt = pl.col("fuel_level").forward_fill().over("journey").shift() - pl.col("fuel_level")
    took = (time - time.shift()).dt.total_microseconds() / 1e6
    legs = rows.select(
        "after_silence",
        time,
        "latitude",
        "longitude",
        journey=pl.col("journey").shift(),
        metres=great_circle_metres(
            pl.col("latitude").shift(), pl.col("longitude").shift(), pl.col("latitude"), pl.col("longitude")
        ),
        moving=pl.when(moves.shift()).then(took).otherwise(0),
        idle=pl.when(moves.shift()).then(0).otherwise(took),
        burnt=burnt.clip(lower_bound=0),
        is_read=pl.col("fuel_level").is_not_null(),
        braking=pl.col("acceleration") <= -HARSH_BRAKING,
        accelerating=pl.col("acceleration") >= HARSH_ACCELERATION,
        heat="engine_temperature",
    ).filter(~pl.col("after_silence"))
    travelled = legs.group_by("journey").agg(
        pl.col("metres", "moving", "idle", "burnt").sum(),
        pl.col("time", "latitude", "longitude", "is_read", "braking", "accelerating", "heat")
        .last()
        .name.prefix("next_"),
    )
    journeys = (
        rows.group_by("journey", maintain_order=True)
        .agg(
            pl.col("vehicle_id", "moves").first(),
            pl.col("time", "latitude", "longitude").first().name.prefix("first_"),
            pl.col("time", "latitude", "longitude").last().name.prefix("last_"),
            top_speed=pl.col("speed").max(),
            n_points=pl.len().cast(pl.Int64),
            is_read=pl.col("fuel_level").is_not_null().any(),
            next_moves=moves.last(),
            braking=(pl.col("acceleration") <= -HARSH_BRAKING).sum(),
            accelerating=(pl.col("acceleration") >= HARSH_ACCELERATION).sum(),
            heat=pl.col("engine_temperature").max(),
        )
        .join(travelled, on="journey", how="left")
        .with_columns(follows=(~rows_begin(rows)).shift(-1, fill_value=False))
    )
    return _trips(journeys), _stops(journeys)


def rows_begin(rows: pl.DataFrame) -> pl.Series:
    """Whether each journey begins after a silence."""
    return rows.group_by("journey", maintain_order=True).agg(pl.col("after_silence").first())["after_silence"]


def _trips(journeys: pl.DataFrame) -> pl.DataFrame:
    arrives = pl.col("follows")
    seconds = (pl.col("end_time") - pl.col("start_time")).dt.total_microseconds() / 1e6
    return (
        journeys.filter("moves")
        .select(
            "vehicle_id",
            "top_speed",
            "n_points",
            start_time="first_time",
            end_time=pl.when(arrives).then("next_time").otherwise("last_time"),
            start_latitude="first_latitude",
            start_longitude="first_longitude",
            end_latitude=pl.when(arrives).then("next_latitude").otherwise("last_latitude"),
            end_longitude=pl.when(arrives).then("next_longitude").otherwise("last_longitude"),
            distance_in_metres=pl.col("metres").fill_null(0),
            moving_seconds=pl.col("moving").fill_null(0),
            idle_seconds=pl.col("idle").fill_null(0),
            fuel_used=pl.when(pl.col("is_read") | (arrives & pl.col("next_is_read"))).then(
                pl.col("burnt").fill_null(0)
            ),
            harsh_braking=(pl.col("braking") + (arrives & pl.col("next_braking"))).cast(pl.Int64),
            harsh_acceleration=(pl.col("accelerating") + (arrives & pl.col("next_accelerating"))).cast(pl.Int64),
            highest_engine_temperature=pl.when(arrives).then(pl.max_horizontal("heat", "next_heat")).otherwise("heat"),
            reason=pl.when(arrives).then(pl.lit("STOPPED")).otherwise(pl.lit("FELL_SILENT")),
        )
        .with_columns(
            litres_per_100_km=pl.when(pl.col("distance_in_metres") > 0).then(
                pl.col("fuel_used") / pl.col("distance_in_metres") * 1e5
            ),
            average_speed=pl.when(seconds > 0).then(pl.col("distance_in_metres") / seconds * 3.6),
            trip_id=pl.format("{}@{}", "vehicle_id", pl.col("start_time").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")),
        )
    )


def _stops(journeys: pl.DataFrame) -> pl.DataFrame:
    moves_on = pl.col("follows")
    return journeys.filter(~pl.col("moves")).select(
        "vehicle_id",
        "n_points",
        start_time="first_time",
        end_time=pl.when(moves_on).then("next_time").otherwise("last_time"),
        latitude="first_latitude",
        longitude="first_longitude",
        reason=pl.when(moves_on).then(pl.lit("MOVED_ON")).otherwise(pl.lit("FELL_SILENT")),
    )


if __name__ == "__main__":
    main()
