"""Meters that jump, without Spark: simulated rides against plain Python, and real ones against DuckDB."""

from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl
import pytest

from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.ride_meter_jumps import RIDE_METER_JUMPS
from tests.shop import NOON

END = datetime(2030, 1, 1, tzinfo=UTC)
JOB = build_job(RIDE_METER_JUMPS)


def point(index, seconds, reading, ride="a"):
    return {
        "ride_id": ride,
        "point_idx": index,
        "timestamp": NOON + timedelta(seconds=seconds),
        "meter_reading": reading,
    }


def jumps(points, job=JOB):
    frame = pl.DataFrame(points, schema=polars_schema(job.columns), orient="row")
    found = play(job, [frame], END).written["ride_meter_jumps"]
    return sorted(found.select("ride_id", "first_point_idx", "last_point_idx").rows())


def test_a_jump_is_between_two_neighbouring_readings_a_minute_apart_at_most():
    points = [point(0, 0, 2.5), point(1, 10, 2.6), point(2, 20, 9.0), point(3, 30, 9.1)]
    assert jumps(points) == [("a", 1, 2)]
    assert jumps([point(0, 0, 2.5), point(1, 61, 9.0)]) == []
    assert jumps([point(0, 0, 2.5), point(1, 60, 9.0)]) == [("a", 0, 1)]
    assert jumps([point(0, 0, 2.5), point(1, 60, 5.5)]) == [], "three dollars are not more than three"


def test_a_point_without_a_reading_is_passed_over_and_rides_are_not_mixed():
    assert jumps([point(0, 0, 2.5), point(1, 5, None), point(2, 10, 9.0)]) == [("a", 0, 2)]
    assert jumps([point(0, 0, 2.5), point(0, 5, 90.0, ride="b")]) == []


def test_a_meter_that_creeps_up_by_more_in_all_has_not_jumped():
    assert jumps([point(at, at * 5, 2.5 + at) for at in range(10)]) == []


@pytest.mark.parametrize(("jump", "within", "least"), [(3.0, 60, 0), (0.5, 60, 100), (1.0, 600, 400)])
def test_jumps_of_real_rides_are_those_that_duckdb_finds(real_data, jump, within, least):
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.execute(
        "CREATE TABLE points AS SELECT ride_id, point_idx::INT AS point_idx, timestamp::TIMESTAMPTZ AS timestamp, "
        "meter_reading::DOUBLE AS meter_reading FROM read_json(?, format = 'newline_delimited', columns = "
        "{ride_id: 'VARCHAR', point_idx: 'INT', timestamp: 'VARCHAR', meter_reading: 'DOUBLE'})",
        [str(real_data / "rides" / "*.gz")],
    )
    expected = database.execute(
        "SELECT ride_id, first_idx, point_idx FROM (SELECT *, lag(point_idx) OVER w AS first_idx, lag(timestamp) OVER w "
        "AS first_time, lag(meter_reading) OVER w AS first_reading FROM points WHERE meter_reading IS NOT NULL "
        "WINDOW w AS (PARTITION BY ride_id ORDER BY timestamp, point_idx)) WHERE meter_reading - first_reading > ? "
        "AND timestamp - first_time <= to_seconds(?) ORDER BY 1, 2",
        [jump, within],
    ).fetchall()
    assert len(expected) >= least
    # Meters that were derived from the trips have no reason to jump.
    assert bool(expected) == bool(least)
    points = database.sql("SELECT * FROM points").pl()
    kinds = polars_schema(JOB.columns)
    points = points.select(pl.col(name).cast(kind) for name, kind in kinds.items())
    job = build_job(RIDE_METER_JUMPS, {"jump": jump, "within": f"{within}s"})
    halves = [points.filter(pl.col("timestamp") < points["timestamp"].median())]
    halves.append(points.join(halves[0], on=["ride_id", "point_idx"], how="anti"))
    found = play(job, halves, END).written["ride_meter_jumps"]
    assert sorted(found.select("ride_id", "first_point_idx", "last_point_idx").rows()) == expected
