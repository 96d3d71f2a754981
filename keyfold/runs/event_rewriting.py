"""Change events of streams, and compute again what jobs have made of them: `rewrite_events`, the mechanism of all commands that do.

1. The rows are chosen, and the files that have them are written again, without them or with other values; nothing is committed.
2. A record in `rewrites/` names these files: the call is decided (`ingestion.event_rewrites`).
3. The tables, the index of ids and the audit are changed: the quarantine before the events, so that no event is in none of them.
4. The jobs that have read such a row, and those that read their tables, read all events that are left into new generations, which go live
   in one step. A job that has not read it goes on from where it was: batches that it has only planned are planned anew.
5. The record is removed.

A call that was cut off before its decision has changed nothing. After it, whoever comes next finishes it: the same call or another one, the
next ingest (step 3), and the next run of each of the jobs (steps 3 to 5, `unfinished_changes`). Maintenance leaves the tables alone from
the first step to the third, also if the call was cut off; a backup has the record and the files that it names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext

import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.ingestion.event_rewrites import EventRewrite, apply_rewrites, carry_out, replacing_files, rewrites
from keyfold.ingestion.ingest_settings import REBUILD
from keyfold.ingestion.inspection import is_unfinished
from keyfold.journal.audit import Author
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions, RunSummary
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.file_changes import commit_change, files_of, prepare_change
from keyfold.runners import Runners
from keyfold.runs.chains import fill_together, held, in_order, published_runs
from keyfold.runs.changed_events import Change, EventsChanged, TableChange
from keyfold.runs.chosen_events import Chosen
from keyfold.runs.deciding_changes import ChosenChange
from keyfold.runs.jobs import JobRun
from keyfold.runs.replayed_jobs import (
    check_can_be_replayed,
    corrected_view,
    jobs_that_have_read,
    live_of,
    readers_of,
    table_changes,
)
from keyfold.runs.unfinished_changes import end_finished, end_rewrite, jobs_behind
from keyfold.stream import Stream


def rewrite_events(
    lakehouse: Lakehouse,
    streams: Sequence[Stream],
    chosen: Chosen,
    change: Change,
    why: Author,
    jobs: Sequence[KeyedJob],
    *,
    yes: bool,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> EventsChanged:
    """Change events of streams, or without `yes` only say what would change; see the module's documentation.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        streams: the streams.
        chosen: which of their events.
        change: what becomes of them.
        why: who changes them, and why.
        jobs: every job of the project that has run, with the parameters of its live generation.
        yes: do it. Without it, a correction is tried on a second event table of the same files, and removed again.

    Raises:
        KeyfoldError: a job was seeded with state that a refresh would lose; an ingest was interrupted, or a run has locked a stream or
            a job, or maintenance its tables. Nothing is changed.
    """
    names, readers = [stream.name for stream in streams], readers_of(lakehouse, streams, jobs)
    tables, summaries, runs, deleted = dict[str, TableChange](), list[RunSummary](), list[JobRun](), 0
    with _locked(lakehouse, streams, readers) if yes or change.kind == "corrected" else nullcontext():
        for name in names if yes else ():
            apply_rewrites(lakehouse, name)
        for stream in streams:
            _check_is_ingested(lakehouse, stream)
        unfinished = [rewrite for rewrite in rewrites(lakehouse) if not rewrite.streams.keys().isdisjoint(names)]
        with _without_maintenance(lakehouse, names if yes else ()):
            rows = {stream.name: change.changed(stream, chosen.rows(lakehouse, stream)) for stream in streams}
            again = _jobs_again(lakehouse, readers, change, rows, unfinished)
            chosen_change = ChosenChange(lakehouse, streams, rows, chosen, change, why)
            counts = chosen_change.counts(yes=yes)
            before, after = chosen_change.shown()
            if yes and (change.kind == "erased" or counts):
                # First of all: a batch that is planned reads the files that are there now, whatever becomes of them.
                for job in readers:
                    if job not in again:
                        live_of(lakehouse, job).journal.withdraw()
                fail_point("rewrite: plans withdrawn")
                chosen_change.decide(counts, again)
                for name in names:
                    carry_out(lakehouse, name)
        if yes:
            generations, summaries = fill_together(lakehouse, again, options, runners)
            tables = table_changes(lakehouse, again, generations) if change.kind == "corrected" else {}
            go_live(lakehouse, *generations)
            deleted = _ended(lakehouse, names, readers)
        elif change.kind == "corrected":
            (stream,) = streams
            with corrected_view(lakehouse, stream, again) as view:
                if (corrected := rows[stream.name]).height:
                    table = view.events(stream.name)
                    commit_change(table, prepare_change(table, files_of(corrected), change.of_file(corrected)))
                generations, _ = fill_together(view, again, options, runners)
                tables = table_changes(lakehouse, again, generations)
    if yes:
        runs = published_runs(lakehouse, again, summaries)
        end_finished(lakehouse)
    for rewrite in unfinished if yes else ():
        # What a call that was cut off has changed, which may be all that this one was to change.
        counts = Counter(counts) + Counter(rewrite.rows if rewrite.kind == change.kind else {})
    return EventsChanged(
        tuple(names), dict(counts), before, after, tuple(job.name for job in again), tuple(runs), tables, deleted
    )


def _jobs_again(
    lakehouse: Lakehouse,
    readers: Sequence[KeyedJob],
    change: Change,
    rows: Mapping[str, pl.DataFrame],
    unfinished: Sequence[EventRewrite],
) -> list[KeyedJob]:
    """Return the jobs to compute again: of an erasure all readers, otherwise those that have read a row; and what is left of other calls.

    Raises:
        KeyfoldError: a refresh of one would lose state that is not in its inputs.
    """
    left = {job for rewrite in unfinished for job in jobs_behind(lakehouse, rewrite)}
    read = readers if change.kind == "erased" else jobs_that_have_read(lakehouse, readers, rows)
    again = in_order([job for job in readers if job in read or job.name in left])
    check_can_be_replayed(lakehouse, again)
    return again


def _ended(lakehouse: Lakehouse, names: Sequence[str], readers: Sequence[KeyedJob]) -> int:
    """End the calls of these streams and jobs, whose locks are held; returns the number of files that are deleted."""
    deleted, jobs = 0, {job.name for job in readers}
    for rewrite in rewrites(lakehouse):
        is_held = rewrite.streams.keys() <= set(names) and rewrite.jobs.keys() <= jobs
        if is_held and not jobs_behind(lakehouse, rewrite):
            deleted += end_rewrite(lakehouse, rewrite)
    return deleted


@contextmanager
def _locked(lakehouse: Lakehouse, streams: Sequence[Stream], jobs: Sequence[KeyedJob]) -> Iterator[None]:
    """Hold the locks of streams' ingests and of jobs."""
    with ExitStack() as stack:
        for stream in streams:
            stack.enter_context(lakehouse.ingest(stream.name).exclusive(f"ingest of {stream.name}"))
        stack.enter_context(held(lakehouse, (job.name for job in jobs)))
        yield


@contextmanager
def _without_maintenance(lakehouse: Lakehouse, streams: Sequence[str]) -> Iterator[None]:
    """Keep maintenance from replacing or deleting files of streams' tables."""
    with ExitStack() as stack:
        for name in streams:
            stack.enter_context(replacing_files(lakehouse, name))
        yield


def _check_is_ingested(lakehouse: Lakehouse, stream: Stream) -> None:
    if is_unfinished(lakehouse, stream.name) or (lakehouse.ingest(stream.name) / REBUILD).exists():
        again = lakehouse.command("ingest", stream.name)
        raise KeyfoldError(f"the last ingest of {stream.name} was cut off; run it once first: `{again}`")
