"""Readings of a metric, jobs that predict anomalies in them, and how their rows agree with the oracle's."""

import math
from datetime import timedelta

import polars as pl
from hypothesis import strategies as st

from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.streams import METRICS
from tests.on_a_grid import moments
from tests.shop import NOON

WAYS = ("every_event", "every_interval", "complete_window")


def anomaly_job(**parameters):
    return build_job(ANOMALY_PREDICTIONS, {"model": "ewma", "min_events": 0, **parameters})


def metric(key, minutes, value):
    return {"key": key, "timestamp": NOON + timedelta(minutes=minutes), "value": float(value)}


def metric_frame(events):
    return pl.DataFrame(events, schema=polars_schema(METRICS.schema), orient="row")


def latest(harness):
    return harness.written["latest_predictions"].sort("key")


def assert_rows_agree(rows, expected):
    for row, wanted in zip(rows, expected, strict=True):
        assert {**row, "expected": 0, "score": 0} == {**wanted, "expected": 0, "score": 0}
        assert (row["expected"] is None) == (wanted["expected"] is None)
        assert math.isclose(row["expected"] or 0, wanted["expected"] or 0, rel_tol=1e-9, abs_tol=1e-9)
        assert math.isclose(row["score"], wanted["score"], abs_tol=1e-9)


NEAR, FAR = moments(300, 30), moments(9000, 180)
MOMENTS = st.sampled_from([NEAR, FAR, NEAR | FAR])
"""Strategies of the minutes of all events: near one another, far apart, and both."""
