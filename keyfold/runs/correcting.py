"""Correct events: replace them by id in the event table, and compute everything that jobs have made of them again.

All jobs that read the stream, directly or through other jobs, read all events into new generations, whose tables are compared with
the live ones. A dry run does this on a second event table of the same files, and removes what it made. Otherwise the event table
is changed first, which keeps its older version in its history, and the new generations go live in one step. The same call completes
a correction that was cut off: until then, a job that has read a replaced event refuses to run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import polars as pl

from keyfold.errors import InvalidData, counted
from keyfold.keyed.generation.generations import next_folder
from keyfold.keyed.generation.going_live import go_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.runner import RunOptions, RunSummary
from keyfold.lakehouse import Lakehouse, carrying
from keyfold.lakehouse.files import remove_tree
from keyfold.lakehouse.reading import scan_table
from keyfold.lakehouse.row_erasure import change_rows
from keyfold.privacy import masked
from keyfold.runners import Runners
from keyfold.runs.chains import fill_together, published_runs
from keyfold.runs.changing_events import (
    check_can_be_replayed,
    check_has_ids,
    check_is_ingested,
    index_anew,
    live_one,
    locked,
    readers_of,
)
from keyfold.runs.jobs import JobRun
from keyfold.state.changing.audit import Author, record_edit
from keyfold.state.changing.promoting import diff_generations
from keyfold.state.differences import Counts, Difference
from keyfold.state.making.sources import fitted, open_source, reading
from keyfold.stream import Stream

_SHOWN = 3


@dataclass(frozen=True)
class TableChange:
    """How a correction changes a table: the counts, and the first rows that differ, none if a column is private."""

    counts: Counts
    rows: pl.DataFrame


@dataclass(frozen=True)
class Corrected:
    """The result of a correction, or of a dry run.

    Attributes:
        stream: name of the stream.
        events: number of events in the file.
        replaced: number of those that differ from the event table.
        before, after: the first replaced events as they were, and as they are now, with private values masked.
        jobs: the jobs that are computed again, each after all jobs that it reads.
        tables: by table of these jobs, how it differs from the live one before.
        runs: the refreshes; none of a dry run.
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
    dry_run: bool = False,
    options: RunOptions | None = None,
    runners: Runners | None = None,
) -> Corrected:
    """Replace events of a stream by those of a file that have the same ids; see the module's documentation.

    Args:
        lakehouse, options, runners: as in `keyfold.run`.
        jobs: every job of the project that has run, with the parameters of its live generation.
        source: Parquet, CSV or JSON lines, a folder of such files or a Delta table, with all columns of the stream.
        author: who corrects them, and why.
        dry_run: only compare events and tables.

    Raises:
        KeyfoldError: the stream has no ids; a row lacks a value or has one that does not fit, breaks a rule of the stream, or has
            an id that is not in the event table exactly once; a job was seeded with state that a refresh would lose; a run was
            interrupted, or has locked the stream or a job. Nothing is changed.

    Example:
        >>> by = Author("ann", "the till counted cups twice")  # doctest: +SKIP
        >>> done = correct(lakehouse, SALES, [purchase_totals()], "right.csv", by)  # doctest: +SKIP
        >>> done.tables["purchase_totals"].counts.changed  # doctest: +SKIP
        1
    """
    events, table, private = (
        _events(lakehouse, stream, source),
        lakehouse.events(stream.name),
        frozenset(stream.private),
    )
    jobs, key = readers_of(lakehouse, [stream], jobs), list(stream.event_id)
    values = [name for name in events.columns if name not in key]

    def compared(rows: pl.LazyFrame) -> pl.LazyFrame:
        """The rows with the id of a right event, and whether another value differs."""
        differs = (pl.col(name).ne_missing(pl.col(f"{name}#new")) for name in values)
        both = rows.join(events.lazy(), on=key, how="inner", suffix="#new")
        return both.select(*events.columns, differs=pl.any_horizontal(pl.lit(value=False), *differs))

    tables, summaries, runs = dict[str, TableChange](), list[RunSummary](), list[JobRun]()
    with locked(lakehouse, [stream], jobs):
        check_is_ingested(lakehouse, stream)
        check_can_be_replayed(lakehouse, jobs)
        there = compared(scan_table(table)).collect()
        _check_ids(stream, source, events, there)
        changed = there.filter("differs").select(stream.event_id)
        before = scan_table(table).join(changed.lazy(), on=stream.event_id, how="semi").select(events.columns)
        before = before.head(_SHOWN).collect().sort(stream.event_id)
        after = events.join(before.select(stream.event_id), on=stream.event_id, how="semi").sort(stream.event_id)
        with _beside(lakehouse, stream, jobs) if dry_run else nullcontext(lakehouse) as view:
            change_rows(
                view.events(stream.name),
                lambda rows: compared(rows).filter("differs"),
                lambda rows: rows.update(events.lazy(), on=key, how="left", include_nulls=True),
            )
            if not dry_run:
                index_anew(lakehouse, stream, events, remain=True)
            made, summaries = fill_together(view, jobs, options, runners)
            for job, generation in zip(jobs, made, strict=True):
                found = diff_generations(job, live_one(lakehouse, job), generation)
                tables |= {name: _change(job, one) for name, one in found.items()}
            if not dry_run:
                go_live(lakehouse, *made)
    if not dry_run:
        runs = published_runs(lakehouse, jobs, summaries)
        keys, rows = masked(changed.head(1000), private).to_dicts(), {f"events.{stream.name}": changed.height}
        record_edit(lakehouse, author, "corrected", stream.name, keys, rows)
    return Corrected(
        stream=stream.name,
        events=events.height,
        replaced=changed.height,
        before=masked(before, private),
        after=masked(after, private),
        jobs=tuple(job.name for job in jobs),
        tables=tables,
        runs=tuple(runs),
    )


def _events(lakehouse: Lakehouse, stream: Stream, source: str) -> pl.DataFrame:
    """Read events in the stream's columns, each of which has a valid value."""
    check_has_ids(lakehouse, stream)
    kinds = polars_schema(stream.schema)
    with reading(source):
        given = open_source(lakehouse, source).collect()
        if lacking := [name for name in kinds if name not in given.columns]:
            raise InvalidData(
                f"{source} lacks {', '.join(lacking)}; give all columns of stream {stream.name}, {', '.join(kinds)}; nothing was "
                "changed"
            )
        made = given.select(
            fitted(pl.col(name), given.schema[name], kind).cast(kind).alias(name) for name, kind in kinds.items()
        )
    never_empty = {field.name for field in stream.schema if not field.nullable} | set(stream.event_id)
    faults = {f"{name} is no {kind}": made[name].is_null() & given[name].is_not_null() for name, kind in kinds.items()}
    faults |= {f"{name} is empty": made[name].is_null() for name in never_empty}
    faults |= {rule.reason: made.select(rule.broken.fill_null(value=False)).to_series() for rule in stream.rules}
    faults["the id is there twice"] = made.select(stream.event_id).is_duplicated()
    for what, wrong in faults.items():
        if wrong.any():
            rows = ", ".join(str(row + 1) for row in wrong.arg_true().head(_SHOWN))
            raise InvalidData(
                f"{source}: {what} in {counted(int(wrong.sum()), 'row')} (row {rows}); nothing was changed"
            )
    return made


def _check_ids(stream: Stream, source: str, events: pl.DataFrame, there: pl.DataFrame) -> None:
    absent = events.join(there, on=stream.event_id, how="anti")
    twice = there.filter(there.select(stream.event_id).is_duplicated()).unique(stream.event_id, maintain_order=True)
    for what, rows in (("is not in", absent), ("is several times in", twice)):
        if rows.height:
            shown = masked(rows.select(stream.event_id).head(_SHOWN), frozenset(stream.private)).to_dicts()
            raise InvalidData(
                f"{source}: the id of {counted(rows.height, 'event')} {what} events.{stream.name} (such as {shown[0]}); an event that is new "
                "has to land as any other; nothing was changed"
            )


@contextmanager
def _beside(lakehouse: Lakehouse, stream: Stream, jobs: Sequence[KeyedJob]) -> Iterator[Lakehouse]:
    """Yield a view of the lakehouse with a second event table of the same files, and remove what was made beside the live ones."""
    aside = lakehouse.home / "aside" / f"{stream.name}-corrected"
    # Of a dry run that was cut off.
    remove_tree(aside, missing_ok=True)
    try:
        carrying.replace_rows(lakehouse.events(stream.name), aside, {}, None)
        yield lakehouse.seeing({}, {stream.name: aside})
    finally:
        for job in jobs:
            next_folder(lakehouse, job.name)  # removes generations that are not live
        remove_tree(aside, missing_ok=True)


def _change(job: KeyedJob, found: Difference) -> TableChange:
    return TableChange(found.summary(), found.first_rows(0 if job.private else _SHOWN))
