"""Play runs to a job in memory as an engine that restarts after each batch would, and count its events each time."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import polars as pl
from polars.testing import assert_frame_equal

from keyfold.keyed.calling.harness import TestHarness, in_copies
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.output_table import OutputTable
from keyfold.keyed.rows.codec import decode, encode
from keyfold.times import EPOCH

MICROSECOND = timedelta(microseconds=1)


def play(
    job: KeyedJob,
    runs: Iterable[pl.DataFrame],
    end: datetime | None = None,
    parts: int = 1,
    cuts: Sequence[datetime] = (),
    times: Sequence[datetime] | None = None,
) -> TestHarness:
    """Play runs, and (with an end) one more without events in which event time reaches it.

    A run is one batch, or as many slices of event time as `cuts` make of it. The state is written and read between
    batches; the job's combiner joins each batch in `parts` of it. `times` are the runs' processing times: all slices of
    a run have one. As by `keyed.slices.cut`, what lies behind the watermark that a run begins with is in one slice.

    Args:
        job: to which the runs are played.
        runs: the events of each run, as `TestHarness.batch` takes them.
        end: event time that a last run without events reaches.
        parts: into how many parts the combiner's input is cut.
        cuts: moments of event time at which runs are cut into slices.
        times: the runs' processing times.

    Raises:
        AssertionError: events are lost, or counted twice.

    Example:
        >>> from keyfold import build_job
        >>> from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
        >>> play(build_job(RIDE_SUMMARIES), []).written["ride_summaries"].height
        0
    """
    harness, read = TestHarness(job), 0
    for number, run in enumerate(runs):
        now = EPOCH if times is None else times[number]
        for events, until in slices(job, run, [cut for cut in cuts if cut > harness.watermark]):
            reached = None if until is None else until - MICROSECOND - job.watermark_delay
            copies = in_copies(job, events)
            harness.batch(combined(job, copies, parts), now, advance_to=reached)
            restart(harness)
            # By the lists of keys, where events lie as in the event table, and not by what was made of them.
            read += events.select(job.copies).item() if copies is not events else events.height
            _check_count(job, harness, read)
    if end:
        harness.batch(advance_to=end)
        restart(harness)
        _check_count(job, harness, read)
    return harness


def slices(
    job: KeyedJob, run: pl.DataFrame, cuts: Sequence[datetime]
) -> Iterable[tuple[pl.DataFrame, datetime | None]]:
    """What the engine makes of a run: all events of a slice come before those of the next.

    With each slice the moment before which all of it lies, from which the engine has its watermark; None for the last,
    whose watermark is that of the newest event.
    """
    times = run[job.event_time]
    inside = [cut for cut in sorted(set(cuts)) if (times < cut).any() and (times >= cut).any()]
    for since, until in pairwise([None, *inside, None]):
        is_in = pl.lit(value=True)
        if since is not None:
            is_in &= pl.col(job.event_time) >= since
        if until is not None:
            is_in &= pl.col(job.event_time) < until
        yield run.filter(is_in), until


def combined(job: KeyedJob, events: pl.DataFrame, parts: int) -> pl.DataFrame:
    """Apply the job's combiner, if it has one, as tasks of Spark would: each to its part."""
    if job.combine is None or not events.height:
        return events
    rows = -(-events.height // parts)
    pieces = [job.combine(events.slice(start, rows)) for start in range(0, events.height, rows)]
    return pl.concat([piece.select(events.columns) for piece in pieces])


def restart(harness: TestHarness) -> None:
    """Write the state down and read it again."""
    harness.state = decode(encode(harness.state))


def accounted_for(job: KeyedJob, harness: TestHarness) -> int:
    """How many events the rows in the job's tables and in its state stand for."""
    in_tables = sum(harness.written[table.name].select(table.events).item() or 0 for table in job.tables)
    return in_tables + (harness.state.select(job.state_events).item() or 0)


def _check_count(job: KeyedJob, harness: TestHarness, read: int) -> None:
    if (found := accounted_for(job, harness)) != read:
        raise AssertionError(f"job {job.name}: {read:,} events were played, and tables and state stand for {found:,}")


def merged(harness: TestHarness, job: KeyedJob, table: str) -> pl.DataFrame:
    """An upsert table as it stands after all that was written to it."""
    (found,) = (one for one in job.tables if one.name == table)
    key = list(found.key)
    return harness.written[table].unique(key, keep="last").sort(key)


def assert_same(job: KeyedJob, one: TestHarness, other: TestHarness) -> None:
    """See that two ways to play the same events have led to the same tables and the same state, to the last bit."""
    for table in job.tables:
        found, expected = (_as_it_stands(harness, job, table) for harness in (one, other))
        assert_frame_equal(found, expected, check_row_order=False, check_exact=True)
    assert_frame_equal(one.state, other.state, check_row_order=False, check_exact=True)


def _as_it_stands(harness: TestHarness, job: KeyedJob, table: OutputTable) -> pl.DataFrame:
    rows = harness.written[table.name]
    if table.name == job.late_table:
        return combined(job, rows, 1)
    return merged(harness, job, table.name) if table.key else rows
