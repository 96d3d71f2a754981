"""Run a job in memory as an engine that restarts after each batch would, and count its events after each batch."""

import io
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import polars as pl
from polars.testing import assert_frame_equal

from keyfold.keyed.calling.harness import TestHarness, in_one_frame, time_in
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
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
    """Run a job over the events of each run in memory; with `end`, over one more run without events.

    A run is one batch, or several slices of event time if there are `cuts` in it. Between batches the state is encoded and
    decoded. As in the engine (`keyed.plans.slices.cut`), all late events of a run are in one slice.

    Args:
        runs: the events of each run, as `TestHarness.batch` takes them.
        end: event time to which the last run, without events, advances the watermark.
        parts: number of parts of a batch that the job's combiner is applied to.
        cuts: event times at which runs are cut into slices.
        times: processing time of each run, which is that of all its slices.

    Raises:
        AssertionError: events are lost, or counted twice.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> play(RIDE_SUMMARIES, []).written["ride_summaries"].height
        0
    """
    harness, read = TestHarness(job), 0
    (declared,) = job.inputs.values()
    for number, run in enumerate(runs):
        now = EPOCH if times is None else times[number]
        # As the engine's plans do it: no cut among late events, which must reach the state of their key in one call.
        for events, until in slices(job, run, [cut for cut in cuts if cut > harness.watermark]):
            # A slice ends before `until`, and what the next slice brings must not be late.
            watermark = None if until is None else until - MICROSECOND - declared.watermark_delay
            copies = in_one_frame(job, events)
            harness.batch(combined(job, copies, parts), now, advance_to=watermark)
            restart(harness)
            # Count copies by the lists of keys, and not by the copies that were made.
            came = events.select(declared.taken).item() if declared.exploded is not None else copies.height
            read += came if declared.conserved else 0
            _check_count(job, harness, read)
    if end:
        harness.batch(advance_to=end)
        restart(harness)
        _check_count(job, harness, read)
    return harness


def slices(
    job: KeyedJob, run: pl.DataFrame, cuts: Sequence[datetime]
) -> Iterable[tuple[pl.DataFrame, datetime | None]]:
    """Cut a run into slices of event time as the engine does.

    Yields:
        Each slice with its end, which determines its watermark; None for the last, whose newest event determines it.
    """
    time = pl.col(time_in(job.only_input, run))
    times = run.select(time).to_series()
    inside = [cut for cut in sorted(set(cuts)) if (times < cut).any() and (times >= cut).any()]
    for since, until in pairwise([None, *inside, None]):
        is_in = pl.lit(value=True)
        if since is not None:
            is_in &= time >= since
        if until is not None:
            is_in &= time < until
        yield run.filter(is_in), until


def combined(job: KeyedJob, events: pl.DataFrame, parts: int) -> pl.DataFrame:
    """Apply the job's combiner, if it has one, to each of `parts` parts of a batch, as Spark's tasks do."""
    combine = next(iter(job.inputs.values())).combine
    if combine is None or not events.height:
        return events
    rows = -(-events.height // parts)
    pieces = [combine(events.slice(start, rows)) for start in range(0, events.height, rows)]
    return pl.concat([piece.select(events.columns) for piece in pieces])


def restart(harness: TestHarness) -> None:
    """Write the state as Parquet and read it again, as a restart does."""
    stored = io.BytesIO()
    harness.state.write_parquet(stored, compression="lz4", statistics=False)
    stored.seek(0)
    harness.state = pl.read_parquet(stored)


def accounted_for(job: KeyedJob, harness: TestHarness) -> int:
    """Return the number of events in the job's tables and in its state."""
    return sum(harness.counted().values())


def _check_count(job: KeyedJob, harness: TestHarness, read: int) -> None:
    if (counted := accounted_for(job, harness)) != read:
        raise AssertionError(f"job {job.name}: {read:,} events were passed in, and tables and state have {counted:,}")


def assert_same(job: KeyedJob, first: TestHarness, second: TestHarness) -> None:
    """Check that two plays of the same events led to exactly the same tables and state.

    Raises:
        AssertionError: they differ.
    """
    for table in job.tables:
        actual, expected = (_rows_of(harness, job, table) for harness in (first, second))
        assert_frame_equal(actual, expected, check_row_order=False, check_exact=True)
    assert_frame_equal(first.state, second.state, check_row_order=False, check_exact=True)


def _rows_of(harness: TestHarness, job: KeyedJob, table: OutputTable) -> pl.DataFrame:
    rows = harness.written[table.name]
    return combined(job, rows, 1) if table.name == job.late_table else rows
