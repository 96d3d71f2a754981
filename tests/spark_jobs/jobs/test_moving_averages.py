"""Moving averages, without Spark, against plain Python and, on real weather, against DuckDB."""

from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from tests.examples import examples
from tests.on_a_grid import many_of, moments, on_grid
from tests.spark_jobs.jobs import moving_average_oracle
from tests.spark_jobs.jobs.batches import assert_close, in_batches

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
        ({"columns": "pressure,tmep"}, "columns: there is no column tmep; did you mean .* There are station_id, time, temp"),
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


VALUES = st.none() | st.floats(-100, 1100)
READINGS = many_of(
    st.tuples(st.sampled_from("abc"), moments(60, 3, seconds=3600), VALUES, VALUES, st.floats(0, 0.999)), 40
)
CUTS = st.lists(st.integers(0, 40), max_size=6)
SLICES = st.lists(on_grid(60, 3).map(lambda hours: NOON + timedelta(hours=hours)), max_size=6)


@examples(200)
@given(
    READINGS, CUTS, SLICES, st.integers(1, 5), st.integers(1, 5), on_grid(12, 3, 1), on_grid(20, 3, 1), on_grid(90, 3)
)
def test_any_order_within_the_delay_and_any_split_and_slices_give_the_rows_of_the_definition(
    drawn, cuts, slices, length, at_least, timeout, delay, end
):
    at_least = min(at_least, length)
    arriving = sorted(drawn, key=lambda one: one[1] + one[4] * delay)
    readings = [reading(hours, pressure, temp, station) for station, hours, pressure, temp, _ in arriving]
    job = averages_job(
        n_readings=length,
        min_readings=at_least,
        timeout=timedelta(hours=timeout),
        watermark_delay=timedelta(hours=delay),
    )
    end = max(NOON + timedelta(hours=end), max(one["time"] for one in readings) - job.only_input.watermark_delay)
    split, whole = (
        play_readings(job, in_batches(readings, cuts), end, slices),
        play_readings(job, [readings[::-1]], end),
    )
    assert split.written["late.moving_averages"].is_empty()
    for table in ("moving_averages", "station_sessions"):
        # To the last bit.
        assert_frame_equal(split.written[table], whole.written[table], check_row_order=False, check_exact=True)
    answer = moving_average_oracle.move(readings, end, length, at_least, timedelta(hours=timeout))
    same_rows(averages(split), answer.averages)
    same_rows(split.written["station_sessions"].to_dicts(), answer.sessions)
    assert split.state.select(job.state.events).item() == answer.open_readings
    same_latest(split)


RUNS = st.lists(st.tuples(on_grid(60, 20), READINGS | st.just([])), min_size=1, max_size=8)


@examples(100)
@given(RUNS, st.integers(1, 4), st.integers(1, 4), on_grid(12, 3), SLICES)
def test_in_processing_time_runs_give_the_rows_of_the_definition_in_any_slices(drawn, length, at_least, delay, slices):
    at_least, timeout = min(length, at_least), timedelta(seconds=60)
    now, runs = NOON, []
    for seconds, readings in drawn:
        now += timedelta(seconds=seconds)
        came = [reading(hours, pressure, temp, station) for station, hours, pressure, temp, _ in readings]
        runs.append((now, came))
    job = averages_job(
        n_readings=length,
        min_readings=at_least,
        timeout=timeout,
        timeout_in="processing_time",
        watermark_delay=timedelta(hours=delay),
    )
    times = [now for now, _ in runs]
    harness = play_readings(job, [readings for _, readings in runs], None, slices, times)
    answer, late = moving_average_oracle.move_by_processing_time(
        runs, job.only_input.watermark_delay, length, at_least, timeout
    )
    same_rows(averages(harness), answer.averages)
    same_rows(harness.written["station_sessions"].to_dicts(), answer.sessions)
    same_latest(harness)
    told_late = harness.written["late.moving_averages"].select("station_id", "time").rows()
    assert sorted(told_late) == sorted((one["station_id"], one["time"]) for one in late)
    assert harness.state.select(job.state.events).item() == answer.open_readings


def same_rows(rows, expected):
    def order(row):
        return row["station_id"], row["start_time"], row["end_time"], row["n_readings"], str(row)

    assert_close(rows, expected, order, rel=1e-12, abs=1e-12)


def same_latest(harness):
    """The upserted table, merged batch by batch, holds the last row of each station."""
    merged = {row["station_id"]: row for row in harness.written["latest_moving_averages"].to_dicts()}
    last = {row["station_id"]: row for row in averages(harness)}
    assert merged == last


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
