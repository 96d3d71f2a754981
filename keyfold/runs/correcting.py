"""Correct events: replace them in the event table by id, or by the line that they came from, and compute again what jobs made of them.

All jobs that read the stream, directly or through other jobs, read all events into new generations, whose tables are compared with
the live ones. Without `yes`, this is done on a second event table of the same files, and what was made is removed. Otherwise the event table
is changed first, which keeps its older version in its history, and the new generations go live in one step. The same call completes
a correction that was cut off: until then, a job that has read a replaced event refuses to run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import polars as pl

from keyfold.keyed.generation.generations import next_folder
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job_run import RunOptions, RunSummary
from keyfold.lakehouse import Lakehouse, carrying
from keyfold.lakehouse.files import remove_tree
from keyfold.privacy import masked
from keyfold.runners import Runners
from keyfold.runs.chains import fill_together, published_runs
from keyfold.runs.changing_events import (
    check_can_be_replayed,
    check_is_ingested,
    index_anew,
    live_one,
    locked,
    readers_of,
)
from keyfold.runs.jobs import JobRun
from keyfold.runs.right_events import SHOWN, replaced_by_id, replaced_by_line, right_events
from keyfold.state.changing.audit import Author, record_edit
from keyfold.state.changing.promoting import diff_generations
from keyfold.state.differences import Counts, Difference
from keyfold.stream import Stream


@dataclass(frozen=True)
class TableChange:
    """How a correction changes a table: the counts, and the first rows that differ, none if a column is private."""

    counts: Counts
    rows: pl.DataFrame


@dataclass(frozen=True)
class Corrected:
    """The result of a correction, or what it would be.

    Attributes:
        stream: name of the stream.
        events: number of events in the file.
        replaced: number of those that differ from the event table.
        before, after: the first replaced events as they were, and as they are now, with private values masked.
        jobs: the jobs that are computed again, each after all jobs that it reads.
        tables: by table of these jobs, how it differs from the live one before.
        runs: the refreshes; none without `yes`.
    """

    stream: str
    events: int
    replaced: int
    before: pl.DataFrame
    after: pl.DataFrame
    jobs: tuple[str, ...]
    tables: Mapping[str, TableChange]
    runs: tuple[JobRun, ...]


def correct(
    lakehouse: Lakehouse,
    stream: Stream,
    jobs: Sequence[KeyedJob],
    source: str,
    author: Author,
    *,
    yes: bool = False,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> Corrected:
    """Replace events of a stream by those of a file that have the same ids, or lines; see the module's documentation.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        jobs: every job of the project that has run, with the parameters of its live generation.
        source: Parquet, CSV or JSON lines, a folder of such files or a Delta table, with all columns of the stream; and of a stream
            without ids, with `file` and `line`: the landing file and the line of the event that a row replaces.
        author: who corrects them, and why.
        yes: do it; without it, only compare events and tables.

    Raises:
        KeyfoldError: a row lacks a value or has one that does not fit, breaks a rule of the stream, or has an id that is not in the
            event table exactly once, or a line that is no event or whose event was changed since; a job was seeded with state that a refresh would lose; a run was
            interrupted, or has locked the stream or a job. Nothing is changed.

    Example:
        >>> by = Author("ann", "the till counted cups twice")  # doctest: +SKIP
        >>> done = correct(lakehouse, SALES, [purchase_totals()], "right.csv", by)  # doctest: +SKIP
        >>> done.tables["purchase_totals"].counts.changed  # doctest: +SKIP
        1
    """
    right, table, private = (
        right_events(lakehouse, stream, source),
        lakehouse.events(stream.name),
        frozenset(stream.private),
    )
    jobs = readers_of(lakehouse, [stream], jobs)
    tables, summaries, runs = dict[str, TableChange](), list[RunSummary](), list[JobRun]()
    with locked(lakehouse, [stream], jobs):
        check_is_ingested(lakehouse, stream)
        check_can_be_replayed(lakehouse, jobs)
        wanted = (
            replaced_by_id(stream, source, right)
            if stream.event_id
            else replaced_by_line(lakehouse, table, stream, right)
        )
        changed, before, after = wanted.difference(table)
        with _beside(lakehouse, stream, jobs) if not yes else nullcontext(lakehouse) as view:
            # A copy has other files.
            copied = wanted if stream.event_id else replaced_by_line(lakehouse, view.events(stream.name), stream, right)
            copied.replace(view.events(stream.name))
            if yes:
                index_anew(lakehouse, stream, right, remain=True)
            made, summaries = fill_together(view, jobs, options, runners)
            for job, generation in zip(jobs, made, strict=True):
                found = diff_generations(job, live_one(lakehouse, job), generation)
                tables |= {name: _change(job, one) for name, one in found.items()}
            if yes:
                go_live(lakehouse, *made)
    if yes:
        runs = published_runs(lakehouse, jobs, summaries)
        keys, rows = (
            masked(changed.rename(lambda name: name.removeprefix("#")), private).head(1000).to_dicts(),
            {f"events.{stream.name}": changed.height},
        )
        record_edit(lakehouse, author, "corrected", stream.name, keys, rows)
    return Corrected(
        stream=stream.name,
        events=right.height,
        replaced=changed.height,
        before=masked(before, private),
        after=masked(after, private),
        jobs=tuple(job.name for job in jobs),
        tables=tables,
        runs=tuple(runs),
    )


@contextmanager
def _beside(lakehouse: Lakehouse, stream: Stream, jobs: Sequence[KeyedJob]) -> Iterator[Lakehouse]:
    """Yield a view of the lakehouse with a second event table of the same files, and remove what was made beside the live ones."""
    aside = lakehouse.home / "aside" / f"{stream.name}-corrected"
    # Of a call that only showed, and was cut off.
    remove_tree(aside, missing_ok=True)
    try:
        carrying.replace_rows(lakehouse.events(stream.name), aside, {}, None)
        yield lakehouse.seeing({}, {stream.name: aside})
    finally:
        for job in jobs:
            next_folder(lakehouse, job.name)  # removes generations that are not live
        remove_tree(aside, missing_ok=True)


def _change(job: KeyedJob, found: Difference) -> TableChange:
    return TableChange(found.summary(), found.first_rows(0 if job.private else SHOWN))
