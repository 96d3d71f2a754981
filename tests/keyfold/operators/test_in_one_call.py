"""Operators keep the order of events and deadlines within one call: called a deadline at a time, they give the same rows."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from keyfold import KeyedJob, TestHarness
from keyfold.keyed.job.step import InOneCall
from tests.examples import examples
from tests.keyfold.operators.every_operator import EVERY_OPERATOR
from tests.shop import NOON

TICK, MINUTE = timedelta(microseconds=1), timedelta(minutes=1)
DURATIONS = [3 * MINUTE, 5 * MINUTE, 12 * MINUTE]
AROUND = [duration + more for duration in DURATIONS for more in (-TICK, timedelta(0), TICK)]
GAPS = st.sampled_from([timedelta(0), TICK, MINUTE, *AROUND, 10 * max(DURATIONS)])
EVENT = st.tuples(st.sampled_from("ab"), GAPS, st.integers(2, 9), st.booleans())
RUNS = st.lists(st.lists(EVENT, max_size=7), min_size=1, max_size=3)


def frames(job: KeyedJob, run, since: datetime) -> tuple[Mapping[str, pl.DataFrame], datetime]:
    """Return the events of a run by input, each a time after the one before it, and the time of the last."""
    rows = {name: [] for name in job.inputs}
    for user, gap, number, is_second in run:
        since += gap
        rows[[*rows][is_second and len(rows) > 1]].append((user, since, number))
    kinds = {name: dict(list(pl.Schema(one.stream.event_schema).items())[:3]) for name, one in job.inputs.items()}
    return {name: pl.DataFrame(rows[name], schema=kind, orient="row") for name, kind in kinds.items()}, since


def played(job: KeyedJob, runs) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    harness, since = TestHarness(job), NOON
    for run in runs:
        events, since = frames(job, run, since)
        harness.batch(events, since)
        harness.assert_nothing_lost()
    harness.batch(None, since + timedelta(days=9), advance_to=since + timedelta(days=9))
    tables = {}
    for table in job.tables:
        rows = harness.written[table.name]
        tables[table.name] = rows.unique(table.key, keep="last", maintain_order=True) if table.key else rows
    return tables, harness.state


@pytest.mark.parametrize("name", EVERY_OPERATOR)
@examples(100, shrinks=False)
@given(data=st.data(), runs=RUNS)
def test_an_operator_gives_the_same_rows_in_one_call_and_a_deadline_at_a_time(name, data, runs):
    case = EVERY_OPERATOR[name]
    job = case.of([data.draw(st.sampled_from(DURATIONS)) for _ in case.durations])
    assert isinstance(job.step, InOneCall)
    expected, actual = (played(one, runs) for one in (job, replace(job, step=job.step.step)))
    for table, rows in expected[0].items():
        assert_frame_equal(actual[0][table], rows, check_row_order=False, check_exact=True)
    assert_frame_equal(actual[1], expected[1], check_row_order=False, check_exact=True)
