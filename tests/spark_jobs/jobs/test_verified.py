"""No shipped job, in any of its modes, depends on how its events come: `keyfold verify` finds nothing.

A mode is a value of one parameter: each of those it may have, if they are few, besides what others are by default.
"""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Literal, get_args, get_origin

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold import KeyedJob, TestHarness, build_job
from keyfold.errors import Misconfigured
from keyfold.keyed.job.step import InOneCall
from keyfold.testing import verify
from keyfold.testing.made_events import NOON, Rows, first_readers, made_history
from spark_jobs.jobs.registry import JOBS
from tests.examples import ALL


def modes() -> dict[str, KeyedJob]:
    """Return each shipped job, and each with another value of one of its parameters."""
    jobs = dict(JOBS)
    for name, job in JOBS.items():
        for parameter, field in job.parameter_fields.items():
            values = _values(field.annotation)
            for value in (value for value in values if value != job.parameters[parameter]):
                # Some values need others, or another job.
                with suppress(Misconfigured):
                    jobs[f"{name} {parameter}={value}"] = build_job(job, {parameter: value})
    return jobs


def _values(kind: object) -> tuple[object, ...]:
    if kind is bool:
        return (False, True)
    return get_args(kind) if get_origin(kind) is Literal else ()


MODES = modes()


@pytest.mark.parametrize("name", MODES)
def test_a_shipped_job_gives_one_answer_however_its_events_come(name):
    found = verify(MODES[name], rounds=40 if ALL else 2, seed=hash_of(name))
    assert found is None, found and (found.way, found.runs, found.difference)


def hash_of(name: str) -> int:
    return random.Random(name).randrange(1000)


@pytest.mark.parametrize("name", [name for name, job in MODES.items() if isinstance(job.step, InOneCall)])
def test_a_shipped_job_gives_the_same_rows_in_one_call_and_a_deadline_at_a_time(name):
    job = MODES[name]
    assert isinstance(job.step, InOneCall)
    for seed in range(20 if ALL else 2):
        runs = made_history(job, {}, random.Random(hash_of(name) + seed))
        expected, actual = (rows_of(one, runs) for one in (job, replace(job, step=job.step.step)))
        for table, rows in expected.items():
            assert_frame_equal(actual[table], rows, check_row_order=False, check_exact=True)


def rows_of(job: KeyedJob, runs: Sequence[Rows]) -> dict[str, pl.DataFrame]:
    harness, readers = TestHarness(job), first_readers(job)
    kinds = {name: pl.Schema(one.stream.event_schema) for name, one in job.inputs.items()}
    for number, run in enumerate(runs):
        frames = {
            name: pl.DataFrame(list(run[readers[name]]), schema=kind, orient="row") for name, kind in kinds.items()
        }
        harness.batch(frames, NOON + timedelta(hours=number))
        harness.assert_nothing_lost()
    return {**harness.written, "state": harness.state}
