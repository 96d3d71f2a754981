"""Moving averages, without Spark: state, and columns; their rows are those of `test_any_history.py`."""

from datetime import datetime, timedelta

import polars as pl

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import play
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from tests.shop import NOON
from tests.spark_jobs.jobs.events import weather_reading

LONG_PAST_ALL = NOON + timedelta(days=300)


def averages_job(**parameters):
    return build_job(MOVING_AVERAGES, parameters)


def play_readings(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=(), times=None):
    runs = [pl.DataFrame(batch, schema=polars_schema(job.columns)) for batch in batches]
    return play(job, runs, end, cuts=cuts, times=times)


def test_the_state_of_a_station_is_bounded_by_the_window():
    harness = play_readings(averages_job(n_readings=4), [[weather_reading(n)] for n in range(50)], NOON)
    assert harness.state["session_start"].count() == 3
    assert harness.state.height == 4


def test_any_numeric_columns_may_be_averaged():
    job = averages_job(columns="humid", n_readings=1)
    harness = TestHarness(job)
    harness.batch(pl.DataFrame([("JFK", NOON, 44.0)], schema=polars_schema(job.columns), orient="row"))
    harness.batch(advance_to=NOON)
    assert harness.written["moving_averages"]["humid_avg"].to_list() == [44.0]
