"""Moving averages, without Spark, against plain Python and, on real weather, against DuckDB."""

from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_PAST_ALL = NOON + timedelta(days=300)
TABLES = ("moving_averages", "latest_moving_averages", "station_sessions")


def averages_job(**parameters):
    return build_job(MOVING_AVERAGES, parameters)


def reading(hours, pressure: float | None = 1000.0, temp: float | None = 50.0, station="JFK"):
    return {
        "station_id": station,
        "time": NOON + timedelta(hours=hours),
        "pressure": pressure,
        "temp": temp,
    }


def play_readings(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=(), times=None):
    runs = [pl.DataFrame(batch, schema=polars_schema(job.columns)) for batch in batches]
    return play(job, runs, end, cuts=cuts, times=times)


def averages(harness):
    return harness.written["moving_averages"].to_dicts()


def test_nothing_is_told_before_n_readings_are_there_and_then_one_row_a_reading():
    harness = play_readings(
        averages_job(n_readings=3, watermark_delay="2h"), [[reading(n, 1000 + n, 10 * n) for n in range(4)]], NOON
    )
    assert averages(harness) == []
    harness.batch(advance_to=NOON + timedelta(hours=3))
    assert averages(harness) == [
        {
            "station_id": "JFK",
            "start_time": NOON + timedelta(hours=n),
            "end_time": NOON + timedelta(hours=n + 2),
            "pressure_avg": 1001.0 + n,
            "temp_avg": 10.0 + 10 * n,
            "n_readings": 3,
            "reason": "WINDOW_FULL",
        }
        for n in (0, 1)
    ]


def test_a_missing_value_is_left_out_of_its_column_and_all_missing_give_null():
    values = [(None, 1.0), (float("nan"), None), (1010.0, 4.0)]
    batch = [reading(n, pressure, temp) for n, (pressure, temp) in enumerate(values)]
    filling = play_readings(averages_job(n_readings=3, min_readings=2), [batch])
    assert [(row["pressure_avg"], row["temp_avg"]) for row in averages(filling)] == [(None, 1.0), (1010.0, 2.5)]
    assert [(row["n_readings"], row["reason"]) for row in averages(filling)] == [
        (2, "WINDOW_FILLING"),
        (3, "WINDOW_FULL"),
    ]


def test_the_state_of_a_station_is_bounded_by_the_window():
    harness = play_readings(averages_job(n_readings=4), [[reading(n)] for n in range(50)], NOON)
    assert harness.state["session_start"].count() == 3
    assert harness.state.height == 4


def test_any_numeric_columns_may_be_averaged():
    job = averages_job(columns="humid", n_readings=1)
    harness = TestHarness(job)
    harness.batch(pl.DataFrame([("JFK", NOON, 44.0)], schema=polars_schema(job.columns), orient="row"))
    harness.batch(advance_to=NOON)
    assert harness.written["moving_averages"]["humid_avg"].to_list() == [44.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"timeout_in": "arrival"}, "timeout_in='arrival': Input should be 'event_time' or 'processing_time'"),
        (
            {"columns": "pressure,tmep"},
            "columns: there is no column tmep; did you mean .* There are station_id, time, temp",
        ),
        ({"columns": "location"}, "location_avg: String is no number"),
        ({"columns": "temp,temp"}, "temp_avg is there twice"),
        ({"columns": []}, "columns"),
        ({"n_readings": 0}, "n_readings"),
        ({"n_readings": 3, "min_readings": 4}, "from_n is 4; it must be 1 at least and at most n, 3"),
        ({"min_readings": 0}, "min_readings"),
    ],
)
def test_parameters_that_cannot_be_are_refused_with_the_reason(given, message):
    with pytest.raises(KeyfoldError, match=message):
        averages_job(**given)


WEATHER_FILE = "weather/weather-2013-h1.csv.gz"


def real_readings(real_data):
    raw = pl.read_csv(real_data / WEATHER_FILE, null_values="NA", infer_schema_length=None)
    return raw.select(
        station_id="origin",
        time=pl.col("time_hour").str.to_datetime("%+", time_unit="us").dt.replace_time_zone("UTC"),
        pressure=pl.col("pressure").cast(pl.Float64),
        temp=pl.col("temp").cast(pl.Float64),
    )


def duckdb_answer(real_data, length, timeout_hours):
    """Window functions over the raw file; sessions end where the reading before is longer ago than the timeout."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(
            f"""
            WITH readings AS (
                SELECT origin AS station_id, CAST(time_hour AS TIMESTAMPTZ) AS time, pressure, temp
                FROM read_csv(?, nullstr = 'NA', types = {{'pressure': 'DOUBLE', 'temp': 'DOUBLE'}})
            ), gaps AS (
                SELECT *, time - lag(time) OVER (PARTITION BY station_id ORDER BY time)
                    > INTERVAL {timeout_hours} HOUR AS breaks FROM readings
            ), sessions AS (
                SELECT *, count(*) FILTER (breaks) OVER (PARTITION BY station_id ORDER BY time) AS session FROM gaps
            ), windows AS (
                SELECT station_id, first(time) OVER last_ones AS start_time, time AS end_time,
                    avg(pressure) OVER last_ones AS pressure_avg, avg(temp) OVER last_ones AS temp_avg,
                    count(*) OVER last_ones AS n_readings,
                    count(*) OVER (PARTITION BY station_id, session) AS of_session,
                    row_number() OVER (PARTITION BY station_id, session ORDER BY time DESC) AS from_end
                FROM sessions
                WINDOW last_ones AS (
                    PARTITION BY station_id, session ORDER BY time ROWS {length - 1} PRECEDING
                )
            )
            SELECT station_id, start_time, end_time, pressure_avg, temp_avg, n_readings,
                CASE WHEN n_readings = {length} THEN 'WINDOW_FULL' ELSE 'TIMEOUT' END AS reason
            FROM windows WHERE n_readings = {length} OR (of_session < {length} AND from_end = 1)
            ORDER BY station_id, end_time
            """,  # noqa: S608 - of two numbers of the test
            params=[str(real_data / WEATHER_FILE)],
        )
        return pl.DataFrame(found.to_arrow_table())


@pytest.mark.parametrize(("length", "timeout", "readings_in_a_batch"), [(10, 24, 10_000_000), (48, 1, 217)])
def test_real_weather_agrees_with_duckdb_in_one_batch_and_in_many(real_data, length, timeout, readings_in_a_batch):
    readings = real_readings(real_data)
    if readings_in_a_batch < readings.height:
        # Up to two hours out of order.
        shift = pl.Series(np.random.default_rng(5).integers(0, 120, readings.height)) * timedelta(minutes=1)
        readings = readings.with_columns(arrival=pl.col("time") + shift).sort("arrival").drop("arrival")
    job = averages_job(n_readings=length, timeout=timedelta(hours=timeout), watermark_delay="2h")
    harness = TestHarness(job)
    for batch in readings.iter_slices(readings_in_a_batch):
        harness.batch(batch)
    harness.batch(advance_to=datetime(2014, 1, 1, tzinfo=UTC))
    found = harness.written["moving_averages"].sort("station_id", "end_time")
    expected = duckdb_answer(real_data, length, timeout).cast(dict(found.schema))  # type: ignore[arg-type]
    assert found.height > 10_000
    assert (timeout == 24) == (expected["reason"].n_unique() == 1)
    assert_frame_equal(found, expected, rel_tol=0, abs_tol=1e-9)
    assert harness.written["station_sessions"]["n_readings"].sum() == readings.height
