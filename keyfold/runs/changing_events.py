"""Change the events of a stream: lock it with the jobs that read it, check that these can be computed again, and index ids anew."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import polars as pl

from keyfold.errors import KeyfoldError, NotFound
from keyfold.ingestion.duplicates import event_ids
from keyfold.ingestion.ingest_settings import REBUILD, open_ingest
from keyfold.ingestion.inspection import ingest_journal, is_unfinished
from keyfold.ingestion.segments import merge_segments, sweep_segments, without_ids, write_segment
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.plans.input_tables import input_tables
from keyfold.lakehouse import Lakehouse, exclusive, is_table
from keyfold.lakehouse.fail_points import fail_point
from keyfold.runs.chains import downstream_of, held, in_order
from keyfold.stream import Stream


def readers_of(lakehouse: Lakehouse, streams: Sequence[Stream], jobs: Sequence[KeyedJob]) -> list[KeyedJob]:
    """Return the jobs with a live generation that read streams, directly or through others, each after those it reads."""
    live = [job for job in jobs if live_generation(lakehouse, job.name) is not None]
    tables = {f"events.{stream.name}" for stream in streams}
    direct = {job.name for job in live if not tables.isdisjoint(input_tables(lakehouse, job))}
    names = direct | downstream_of(direct, live)
    return in_order([job for job in live if job.name in names])


@contextmanager
def locked(lakehouse: Lakehouse, streams: Iterable[Stream], jobs: Iterable[KeyedJob]) -> Iterator[None]:
    """Hold the locks of streams' ingests and of jobs.

    Raises:
        KeyfoldError: a run holds one of them.
    """
    with ExitStack() as stack:
        for stream in streams:
            stack.enter_context(exclusive(lakehouse.ingest(stream.name), f"ingest of {stream.name}"))
        stack.enter_context(held(lakehouse, (job.name for job in jobs)))
        yield


def check_has_events(lakehouse: Lakehouse, stream: Stream) -> None:
    """Check that there is an event table of a stream.

    Raises:
        NotFound: the stream was not ingested yet.
    """
    if not is_table(lakehouse.events(stream.name)):
        raise NotFound(f"events.{stream.name} is not in {lakehouse.home} yet; run `keyfold ingest {stream.name}` first")


def check_is_ingested(lakehouse: Lakehouse, stream: Stream) -> None:
    """Check that no ingest of a stream was cut off.

    Raises:
        KeyfoldError: it was.
    """
    if is_unfinished(lakehouse, stream.name) or (lakehouse.ingest(stream.name) / REBUILD).exists():
        again = lakehouse.command("ingest", stream.name)
        raise KeyfoldError(f"the last ingest of {stream.name} was cut off; run it once first: `{again}`")


def check_can_be_replayed(lakehouse: Lakehouse, jobs: Iterable[KeyedJob]) -> None:
    """Check that a refresh of jobs loses nothing that is not in their inputs.

    Raises:
        KeyfoldError: one was seeded with state from elsewhere.
    """
    for job in jobs:
        origin = live_one(lakehouse, job).origin
        if origin is not None and (origin.how == "bootstrap" or origin.events_skipped):
            raise KeyfoldError(
                f"job {job.name} began with state from {origin.what}, which a refresh does not have. Take the rows out of that "
                f"source, give the seed up with `{lakehouse.command('run', job.name, '--full-refresh')}`, repeat this command, "
                "and then seed the job again with `keyfold state bootstrap`"
            )


def index_anew(lakehouse: Lakehouse, stream: Stream, events: pl.DataFrame, *, remain: bool) -> None:
    """Have the index of ids know events as they are now, or, if they do not remain in the event table, no longer.

    What it knew of these ids goes, so that the same call may be repeated after one that was cut off. Of events that do not remain, only
    the ids count.

    Raises:
        OSError: the disk is full or fails.
        DamagedArrayError: a segment of the index is damaged.
    """
    if not stream.event_id:
        return
    birth, journal, ids = (
        open_ingest(lakehouse, stream),
        ingest_journal(lakehouse, stream.name),
        event_ids(stream, events),
    )
    done = journal.last_done()
    if done is not None and len(ids):
        live = without_ids(birth.segments, done.segments, ids)
        if remain:
            new = write_segment(birth.segments, ids.take(ids.sorted_order()))
            live = merge_segments(birth.segments, [*live, new])
        fail_point("index: ids written")
        journal.amend([], [done.model_copy(update={"segments": live})])
        fail_point("index: amended")
        sweep_segments(birth.segments, {one.name for one in live})


def live_one(lakehouse: Lakehouse, job: KeyedJob) -> Generation:
    """Return the live generation of a job that has one."""
    live = live_generation(lakehouse, job.name)
    assert live is not None  # noqa: S101 - `readers_of` gives jobs with a live generation
    return live
