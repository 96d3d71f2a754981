"""Moving averages, without Spark, against plain Python and, on real weather, against DuckDB."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_PAST_ALL = NOON + timedelta(days=300)


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
