"""No shipped job's answers depend on which other keys a call has: what lets the engine pass those that are needed alone."""

from datetime import timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from keyfold.keyed.calling.harness import TestHarness, in_copies
from keyfold.keyed.calling.slots import slots_of
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import conform
from keyfold.keyed.rows.hashing import PartOf
from tests.keyfold.state.job_histories import END, HISTORIES, START

PIECES = 3


def played(job: KeyedJob, batches: list[pl.DataFrame], ends: list) -> dict[str, pl.DataFrame]:
    """All that the job writes and keeps of batches, each of which takes event time to the same end."""
    harness = TestHarness(job)
    for number, (events, end) in enumerate(zip(batches, ends, strict=True)):
        harness.batch(events, processing_time=START + timedelta(hours=number), advance_to=end)
    kept = harness.state
    harness.batch(processing_time=END, advance_to=END)
    return {**harness.written, "#state": kept}


def in_one_order(frame: pl.DataFrame) -> pl.DataFrame:
    texts = frame.select(pl.struct(frame.columns).struct.json_encode()).to_series()
    return frame[texts.arg_sort()]


@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_keys_played_apart_give_what_all_give_together(history):
    job = history.job()
    batches = [conform(in_copies(job, with_columns_of(job, part)), job.events, "events") for part in history.parts()]
    newest, ends = None, []
    for events in batches:
        newest = max(time for time in (newest, events[job.event_time].max()) if time is not None)
        ends.append(newest - job.watermark_delay)
    together = played(job, batches, ends)
    pieces = [
        played(job, [events.filter(pl.Series(slots_of(job, events) % PIECES == piece)) for events in batches], ends)
        for piece in range(PIECES)
    ]
    for table, rows in together.items():
        apart = pl.concat([piece[table] for piece in pieces])
        assert_frame_equal(in_one_order(apart), in_one_order(rows), abs_tol=1e-9)


def with_columns_of(job: KeyedJob, events: pl.DataFrame) -> pl.DataFrame:
    """Events with the columns that the job derives of them, in the columns that it takes."""
    if job.time_from:
        events = events.with_columns(pl.col(job.time_from).alias(job.event_time))
    derived = {name: how.expression() if isinstance(how, PartOf) else how for name, how in job.derived.items()}
    events = events.with_columns(**derived)
    if job.keys_of is not None:
        return events
    return events.select(job.events.names)
