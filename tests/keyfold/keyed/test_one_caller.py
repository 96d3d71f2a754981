"""The harness in memory and the operator on Spark refuse the same steps with the same words."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import empty, encode, polars_schema
from keyfold.keyed.running.blobs import CLOCK, BatchClock
from keyfold.keyed.running.operator import PartitionOperator, StepError
from keyfold.times import micros
from spark_jobs.jobs.vehicle_trips import VEHICLE_STOP, VEHICLE_TRIPS
from spark_jobs.streams import TELEMETRY

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = build_job(VEHICLE_TRIPS)
POINT = ("bus-7", NOON, 48.0, 11.0, 50.0, *[None] * 4)
POINTS = pl.DataFrame([POINT], schema=polars_schema(TELEMETRY.schema), orient="row")


def operate(job, events):
    """One batch of one state partition by the operator; gives the tables that it has rows for."""
    clock = BatchClock(0, micros(datetime(1, 1, 1, tzinfo=UTC)), micros(NOON), micros(NOON), (micros(NOON),))
    blobs = [(CLOCK, clock.pack()), (0, encode(events))]
    return [table for table, _ in PartitionOperator(job, Path("responses"), Path("parts")).call(blobs, None)]


def job_that_gives(**changes):
    """The job with a step that gives back something else in place of one of its frames."""

    def step(state, events, clock):
        answer = JOB.function(state, events, clock)
        return replace(answer, **{name: change(getattr(answer, name)) for name, change in changes.items()})

    return replace(JOB, step=step)


REFUSED = {
    "a column of output that is missing": (
        {"output": lambda rows: rows.drop("reason")},
        "the step's output misses reason",
    ),
    "a column of output too many": (
        {"output": lambda rows: rows.with_columns(mood=pl.lit("good"))},
        "the step's output has mood besides its columns",
    ),
    "a column of output of another type": (
        {"output": lambda rows: rows.with_columns(n_points=pl.lit("many"))},
        "the step's output n_points is String, not Int64",
    ),
    "a column of state that is missing": (
        {"state": lambda rows: rows.drop("deadline")},
        "the step's state misses deadline",
    ),
    "a late event in other columns": (
        {"late": lambda rows: rows.drop("speed")},
        "the step's late events misses speed",
    ),
    "a side table in other columns": (
        {"side": lambda _: {"vehicle_stops": empty(VEHICLE_STOP).drop("latitude")}},
        "the step's output vehicle_stops misses latitude",
    ),
    "a side table that was not declared": (
        {"side": lambda tables: {**tables, "vehicle_moods": empty(JOB.main.schema)}},
        "the step writes vehicle_moods, which the job does not declare",
    ),
    "all rows of state and some more": (
        {"add": lambda _: empty(JOB.state.schema)},
        "the step returned state and add: state has all rows of its keys, add and drop what changes",
    ),
    "rows to add of another type": (
        {
            "state": lambda _: pl.DataFrame(),
            "add": lambda _: empty(JOB.state.schema).with_columns(deadline=pl.lit("noon")),
        },
        "the step's add deadline is String, not Datetime",
    ),
    "keys to drop in other columns": (
        {"state": lambda _: pl.DataFrame(), "drop": lambda _: pl.DataFrame({"vehicle": ["bus-7"]})},
        "the step's drop misses vehicle_id; has vehicle besides its columns",
    ),
    "a key to drop that was not given": (
        {"state": lambda _: pl.DataFrame(), "drop": lambda _: pl.DataFrame({"vehicle_id": ["bus-8"]})},
        r"1 rows of keys \(vehicle_id\) that it was not given",
    ),
    "a key to drop that is none": (
        {"state": lambda _: pl.DataFrame(), "drop": lambda _: pl.DataFrame({"vehicle_id": [None]})},
        "the step's state has no value in the key's column vehicle_id",
    ),
    "no state at all": ({"state": lambda _: pl.DataFrame()}, "the step's state misses vehicle_id, "),
    "state without a key": (
        {"state": lambda rows: rows.with_columns(vehicle_id=pl.lit(None, pl.String))},
        "the step's state has no value in the key's column vehicle_id",
    ),
}


@pytest.mark.parametrize(("changes", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_operator_refuses_the_harness_refuses_with_the_same_words(changes, reason):
    job = job_that_gives(**changes)
    with pytest.raises(ValueError, match=reason) as in_memory:
        TestHarness(job).batch(POINTS)
    with pytest.raises(StepError, match=reason) as on_spark:
        operate(job, POINTS)
    assert str(on_spark.value).endswith(str(in_memory.value))


def test_what_the_harness_takes_the_operator_takes():
    called = TestHarness(JOB).batch(POINTS, advance_to=NOON)
    assert called.state.height == 1
    assert operate(JOB, POINTS) == [*called.tables]
