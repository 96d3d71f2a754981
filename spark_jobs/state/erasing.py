"""An erasure: all rows of some values of a stream's columns, wherever the lakehouse keeps them, gone for good.

One job after another gets a new generation without them, then the tables of open state, the quarantine and the events;
last, what only history held. Whatever it was cut off in, the same call again finishes it: what is gone is not looked for.

What a job has summed up without keeping the columns cannot be told apart any more: it stays, and the report says where.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.errors import KeyfoldError
from spark_jobs.ingest.inspection import is_unfinished
from spark_jobs.keyed.contract import KeyedJob
from spark_jobs.keyed.generations import Generation, live_generation
from spark_jobs.keyed.operator import count
from spark_jobs.keyed.records import KeyedDone
from spark_jobs.lakehouse import Lakehouse, exclusive, is_table
from spark_jobs.lakehouse.changes import changes_since
from spark_jobs.lakehouse.erasing import ErasedRows, count_rows_of, erase_rows, forget
from spark_jobs.lakehouse.parquet import scan_parquet
from spark_jobs.lakehouse.reading import data_file_paths
from spark_jobs.objects.place import Place
from spark_jobs.state.audit import Author, digest, write_down
from spark_jobs.state.editing import origin_after
from spark_jobs.state.keys import wanted_keys
from spark_jobs.state.pruning import remove_other_generations
from spark_jobs.state.rewriting import last_batch, map_frames, rewrite
from spark_jobs.streams import Stream


@dataclass(frozen=True)
class Erasure:
    """What is to be erased.

    Attributes:
        values: by column of the stream; a row goes that has one of a column's values in every column named.
        author: who does it, and why.
    """

    values: Mapping[str, Sequence[str]]
    author: Author


@dataclass(frozen=True)
class Erased:
    """What held the values, and what holds none of them any more.

    Attributes:
        stream: whose rows.
        rows: that were found and erased, by place: `state of JOB`, a table's name, `events.STREAM`, `quarantine.STREAM`.
        sums: tables and states that do not keep the columns, and to which such events may have been added.
        generations: that are live now, by job.
        files_deleted: of the tables' history.
        not_touched: places outside the tables where people should look, for people.
    """

    stream: str
    rows: dict[str, int]
    sums: tuple[str, ...]
    generations: dict[str, str]
    files_deleted: int
    not_touched: tuple[str, ...] = field(default=())


def erase(
    spark: SparkSession,
    lakehouse: Lakehouse,
    stream: Stream,
    jobs: Sequence[KeyedJob],
    erasure: Erasure,
    *,
    dry_run: bool = False,
) -> Erased:
    """Erase rows of a stream everywhere; see the module's text.

    Args:
        spark: rewrites states.
        lakehouse: of which.
        stream: whose rows.
        jobs: every job that reads the stream, as its live generation is.
        erasure: what, by whom, and why.
        dry_run: count alone.

    Raises:
        KeyfoldError: a column is none of the stream's or a value none of its type, a run was cut off, or one holds the
            stream or a job.
    """
    which = _condition(stream, erasure.values)
    with ExitStack() as locks:
        if not dry_run:
            # All at once: a run in between would read what is being erased, or write it again.
            locks.enter_context(exclusive(lakehouse.ingest(stream.name), f"ingest of {stream.name}"))
            for job in jobs:
                locks.enter_context(exclusive(lakehouse.job(job.name), f"job {job.name}"))
        if is_unfinished(lakehouse, stream.name):
            raise KeyfoldError(
                f"the last ingest of {stream.name} was cut off; run it once first: `keyfold ingest {stream.name}`"
            )
        live = [(job, one, last_batch(job, one)) for job in jobs if (one := live_generation(lakehouse, job.name))]
        rows: dict[str, int] = {}
        generations: dict[str, str] = {}
        for job, generation, done in live:
            now = _of_job(spark, lakehouse, job, generation, done, which, rows, dry_run=dry_run)
            generations[job.name] = now.name
        tables = {f"open.{job.name}": lakehouse.open_state(job.name) for job, _, _ in live}
        tables |= {f"quarantine.{stream.name}": lakehouse.quarantine(stream.name)}
        # The events last: what jobs have read is counted from them, also where a killed call is run again.
        tables |= {f"events.{stream.name}": lakehouse.events(stream.name)}
        for name, table in tables.items():
            if is_table(table):
                condition = _in_text(erasure.values) if name.startswith("quarantine.") else which
                rows[name] = (count_rows_of if dry_run else erase_rows)(table, condition).rows
        deleted = 0
        if not dry_run:
            for job, _, _ in live:
                # They hold the rows too, and could be promoted.
                remove_other_generations(lakehouse, job.name, branches=True)
                deleted += sum(forget(_now(lakehouse, job).table(table.name)) for table in job.tables)
            deleted += sum(forget(table) for table in tables.values() if is_table(table))
    found = Erased(
        stream=stream.name,
        rows={name: count for name, count in rows.items() if count},
        sums=tuple(_sums(live, which)),
        generations=generations,
        files_deleted=deleted,
        not_touched=_elsewhere(lakehouse, stream),
    )
    if not dry_run:
        told = json.dumps({name: sorted(values) for name, values in erasure.values.items()}, sort_keys=True)
        rows_told = json.dumps(found.rows)
        # The digest alone: a list of erased keys would be what the erasure was to end.
        write_down(
            lakehouse, erasure.author, what="erased", of=stream.name, generation=None, keys=digest(told), rows=rows_told
        )
    return found


def _of_job(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    live: Generation,
    done: KeyedDone,
    which: pl.Expr,
    rows: dict[str, int],
    *,
    dry_run: bool,
) -> Generation:
    """Erase in a job's state and tables; gives the generation that is live then."""
    in_state = _in_state(spark, job, live, done, which) if _has(job.state, which) else ErasedRows(0, 0)
    rows[f"state of {job.name}"] = in_state.rows
    events = in_state.events
    for table in job.tables:
        if _has(table.schema, which):
            there = count_rows_of(live.table(table.name), which, table.events)
            rows[table.name] = there.rows
            events += there.events
    unread = _unread(lakehouse, job, done)
    read = count_rows_of(lakehouse.events(job.stream), which, job.copies).events - _held(job, unread, which)
    is_there = in_state.rows or any(rows.get(table.name) for table in job.tables)
    if dry_run or not (is_there or events != read):
        return live

    def without(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.filter(~which.fill_null(False)) if _has(job.state, which) else frame

    def erase_in_tables(generation: Generation) -> None:
        for table in job.tables:
            if _has(table.schema, which):
                erase_rows(generation.table(table.name), which, table.events)

    # What the job has summed up stays, though its events go: they count as events that its state began with.
    origin = replace(origin_after(live, "erasure", read - events), how="erasure")
    rewritten = rewrite(
        spark, lakehouse, job, live, origin, without, erase_in_tables, events=done.total_events - events
    )
    return rewritten.generation


def _in_state(spark: SparkSession, job: KeyedJob, live: Generation, done: KeyedDone, which: pl.Expr) -> ErasedRows:
    def found(frame: pl.DataFrame) -> dict[str, int]:
        theirs = frame.filter(which)
        return {"rows": theirs.height, "events": count(theirs, job.state_events)}

    told = map_frames(spark, live, done.batch, found)
    return ErasedRows(sum(one["rows"] for one in told), sum(one["events"] for one in told))


def _unread(lakehouse: Lakehouse, job: KeyedJob, done: KeyedDone) -> list[Place]:
    """Files of the event table that the job has yet to read."""
    events, position = lakehouse.events(job.stream), done.positions.get(f"events.{job.stream}")
    if position is None:
        return data_file_paths(events)
    return [events / file.path for file in changes_since(events, position, job.stored_time).files]


def _held(job: KeyedJob, files: Sequence[Place], which: pl.Expr) -> int:
    """Events of the job in these files, of the event table."""
    return sum(int(scan_parquet(file).filter(which).select(job.copies).collect().item() or 0) for file in files)


def _condition(stream: Stream, values: Mapping[str, Sequence[str]]) -> pl.Expr:
    """The rows of a frame that has the columns."""
    if not values:
        raise KeyfoldError(f"say what is to be erased, by columns of {stream.name}: {', '.join(stream.schema.names)}")
    unknown = [name for name in values if name not in stream.schema.names]
    if unknown:
        raise KeyfoldError(
            f"stream {stream.name} has no column {', '.join(unknown)}; it has {', '.join(stream.schema.names)}"
        )
    condition = pl.lit(value=True)
    for name, texts in values.items():
        wanted = wanted_keys(texts, (name,), stream.schema)
        assert wanted is not None  # noqa: S101 - narrows: a column is named with a value at least
        condition = condition & pl.col(name).is_in(wanted.frames[0][name].implode())
    return condition


def _in_text(values: Mapping[str, Sequence[str]]) -> pl.Expr:
    """Quarantined lines that hold one of each column's values, as text."""
    held = [
        reduce(or_, [pl.col("raw").str.contains(text, literal=True) for text in texts]) for texts in values.values()
    ]
    return pl.all_horizontal(held)


def _has(schema: pa.Schema, which: pl.Expr) -> bool:
    return all(name in schema.names for name in which.meta.root_names())


def _sums(live: Sequence[tuple[KeyedJob, Generation, KeyedDone]], which: pl.Expr) -> Iterator[str]:
    for job, _, _ in live:
        if not _has(job.state, which):
            yield f"state of {job.name}"
        yield from (table.name for table in job.tables if not _has(table.schema, which))


def _now(lakehouse: Lakehouse, job: KeyedJob) -> Generation:
    live = live_generation(lakehouse, job.name)
    assert live is not None  # noqa: S101 - it was there under the lock that is held
    return live


def _elsewhere(lakehouse: Lakehouse, stream: Stream) -> tuple[str, ...]:
    return (
        f"files that landed in {lakehouse.landing(stream.name)} or elsewhere: a rebuild would read them again",
        "answers of services that events were sent to, and what those keep",
        "backups of the lakehouse, and copies that others have made of its tables",
    )
