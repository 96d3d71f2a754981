"""Every job of events before 1970: nothing is late for that, and all is as it would be a number of weeks later."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import merged, play
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS
from tests.spark_jobs.jobs.batched_enrichment.test_batched_enrichment import Service, job_with

OLD = datetime(1958, 3, 2, 13, 7, tzinfo=UTC)
WEEKS_LATER = timedelta(weeks=3500)
"""Whole weeks, so that hours of the day, days of the week and all windows are the same."""

IN_TIME = {
    "ride_points": [("ride_id", "a"), ("ride_status", "enroute")],
    "weather": [("station_id", "JFK")],
    "metrics": [("key", "cpu")],
    "telemetry": [("vehicle_id", "bus-7")],
    "sales": [("item", "cup")],
}

CASES = [
    ("ride_summaries", {"close": "fast"}),
    ("ride_summaries", {"close": "complete"}),
    ("moving_averages", {"n_readings": 3}),
    *(
        ("anomaly_predictions", {"model": model, "learn": learn, "min_events": 3, "emit": "all"})
        for model in ("rarity", "ewma")
        for learn in ("every_event", "every_interval", "complete_window")
    ),
    ("vehicle_trips", {}),
    ("fleet_warnings", {"low_fuel": 12, "low_fuel_until": 13}),
    ("top_products", {"k": 3}),
    ("purchase_totals", {"order": "arrival"}),
    ("purchase_totals", {"order": "event_time"}),
    ("model_totals", {}),
    ("event_index", {}),
    ("event_index", {"window": "1h"}),
    ("event_index", {"window": "1h every 7m"}),
    ("batched_enrichment", {"max_size": 7}),
]


def job_of(name, parameters) -> KeyedJob:
    return job_with(Service(), **parameters) if name == "batched_enrichment" else build_job(JOBS[name], parameters)


def events_of(job, began, count=60):
    """Events of one key, six minutes apart with a pause of three days in between, in the job's columns."""
    stream = STREAMS[job.only_input.stream.name]
    rows = []
    for number in range(count):
        time = began + number * timedelta(minutes=6) + (number > count // 2) * timedelta(days=3)
        row = {field.name: _value(str(field.type), number) for field in stream.schema}
        rows.append({**row, **dict(IN_TIME[job.only_input.stream.name]), stream.event_time: time})
    return pl.DataFrame(rows, schema=polars_schema(stream.schema), orient="row")


def _value(kind, number):
    values = {"int32": number, "int64": number % 5 - 1, "double": 10.0 + number * 7 % 5, "list<item: string>": ["m"]}
    return values.get(kind)


@pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
def test_events_before_1970_give_what_the_same_events_give_weeks_later(name, parameters):
    job = job_of(name, parameters)
    played = []
    for began in (OLD, OLD + WEEKS_LATER):
        events = events_of(job, began)
        runs = [events[:25], events[25:40], events[40:]]
        played.append(play(job, runs, end=began + timedelta(days=60)))
    old, new = played
    assert old.written[job.late_table].is_empty()
    assert old.written[job.name].height > 0
    for table in job.tables:
        rows, expected = (merged(one, job, table.name) if table.key else one.written[table.name] for one in played)
        assert_frame_equal(_as_if_later(rows), _without_names(expected), check_row_order=False)
    assert new.watermark - old.watermark == WEEKS_LATER


def _as_if_later(rows):
    times = [name for name, kind in rows.schema.items() if kind.is_temporal() and name != "failed_at"]
    return _without_names(rows).with_columns(pl.col(times) + WEEKS_LATER)


def _without_names(rows):
    """Rows without what is made of a time or of all that an event says."""
    return rows.drop("trip_id", "idempotency_key", strict=False)
