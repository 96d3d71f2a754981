"""An erasure: all rows of some values of a stream's columns, wherever the lakehouse keeps them, gone for good.

One job after another gets a new generation without them, then the tables of open state, the quarantine and the events;
last, what only history held. Whatever it was cut off in, the same call again finishes it: what is gone is not looked for.

What a job has summed up without keeping the columns cannot be told apart any more: it stays, and the report says where.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from keyfold.columns import made_of
from keyfold.errors import InvalidData, KeyfoldError
from keyfold.ingestion.ingest_settings import REBUILD
from keyfold.ingestion.inspection import is_unfinished
from keyfold.keyed.contract import KeyedJob
from keyfold.keyed.generations import Generation, live_generation
from keyfold.keyed.inputs import changes_for
from keyfold.keyed.records import KeyedDone
from keyfold.keyed.step_call import count
from keyfold.lakehouse import Lakehouse, exclusive, is_table, read_json
from keyfold.lakehouse.erasing import ErasedRows, count_rows_of, erase_rows, forget, forget_log
from keyfold.lakehouse.reading import scan_files
from keyfold.privacy import MASK
from keyfold.state.audit import Author, digest, mask_keys, texts_that_hold, write_down
from keyfold.state.editing import origin_after
from keyfold.state.erasing_ingest import (
    Unsearchable,
    Values,
    erase_in_ingest,
    forget_in_ingest,
    typed_values,
    unsearchable,
)
from keyfold.state.pruning import remove_other_generations
from keyfold.state.rewriting import last_batch, map_frames, rewrite
from keyfold.storage.place import Place
from keyfold.stream import Stream


@dataclass(frozen=True)
class Erasure:
    """What is to be erased.

    Attributes:
        values: by column of the stream; a row goes that has one of a column's values in every column named.
        author: who does it, and why.
        remove_unsearchable: whether quarantined lines go too whose fields cannot be told.
    """

    values: Mapping[str, Sequence[str]]
    author: Author
    remove_unsearchable: bool = False


@dataclass(frozen=True)
class Erased:
    """What held the values, and what holds none of them any more.

    Attributes:
        stream: whose rows.
        rows: that were found and erased, by place: `state of JOB`, a table's name, `events.STREAM`, `quarantine.STREAM`,
            `aside/FOLDER/events` and `/quarantine`, and how many `names of landing files` and `keys in monitoring.edits`.
        sums: tables and states that do not keep the columns, and to which such events may have been added.
        unsearchable: quarantined lines whose fields cannot be told; they stay unless they were to be removed too.
        generations: that are live now, by job.
        files_deleted: of the tables' history.
        not_touched: places outside the tables where people should look, for people.
    """

    stream: str
    rows: dict[str, int]
    sums: tuple[str, ...]
    unsearchable: Unsearchable
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
    values = _values(stream, erasure.values)
    which = values.which
    with ExitStack() as locks:
        if not dry_run:
            # All at once: a run in between would read what is being erased, or write it again.
            locks.enter_context(exclusive(lakehouse.ingest(stream.name), f"ingest of {stream.name}"))
            for job in jobs:
                locks.enter_context(exclusive(lakehouse.job(job.name), f"job {job.name}"))
        if is_unfinished(lakehouse, stream.name) or (lakehouse.ingest(stream.name) / REBUILD).exists():
            raise KeyfoldError(
                f"the last ingest of {stream.name} was cut off; run it once first: `keyfold ingest {stream.name}`"
            )
        live = [(job, one, last_batch(job, one)) for job in jobs if (one := live_generation(lakehouse, job.name))]
        rows: dict[str, int] = {}
        generations: dict[str, str] = {}
        for job, generation, done in live:
            now = _of_job(spark, lakehouse, job, stream, generation, done, which, rows, dry_run=dry_run)
            generations[job.name] = now.name
        tables = {f"open.{job.name}": lakehouse.open_state(job.name) for job, _, _ in live}
        tables = {name: table for name, table in tables.items() if is_table(table)}
        for name, table in tables.items():
            if _has(pa.schema(DeltaTable(str(table)).schema().to_arrow()), which):
                rows[name] = (count_rows_of if dry_run else erase_rows)(table, which).rows
        cannot = unsearchable(lakehouse, stream, values)
        rows["keys in monitoring.edits"] = mask_keys(
            lakehouse, erasure.values, not_of=_other_jobs(lakehouse, stream), dry_run=dry_run
        )
        rows |= erase_in_ingest(
            lakehouse, stream, values, remove_unsearchable=erasure.remove_unsearchable, dry_run=dry_run
        )
        deleted = 0
        if not dry_run:
            for job, _, _ in live:
                # They hold the rows too, and could be promoted.
                remove_other_generations(lakehouse, job.name, branches=True)
                generation = _now(lakehouse, job)
                deleted += sum(forget(generation.table(table.name)) for table in job.tables)
                generation.record_checksums()
            for table in tables.values():
                deleted += forget(table)
                forget_log(table)
            deleted += forget_in_ingest(lakehouse, stream.name)
    rows = {name: count for name, count in rows.items() if count}
    if not dry_run:
        write_down(
            lakehouse,
            erasure.author,
            what="erased",
            of=stream.name,
            generation=None,
            keys=_described(stream, erasure.values),
            rows=json.dumps(rows),
        )
    return Erased(
        stream=stream.name,
        rows=rows,
        sums=tuple(_sums(live, which)),
        unsearchable=cannot,
        generations=generations,
        files_deleted=deleted,
        not_touched=tuple(_elsewhere(lakehouse, stream, jobs, erasure.values)),
    )


def _of_job(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    stream: Stream,
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
    of_stream, unread = lakehouse.events(stream.name), _unread(lakehouse, job, stream, done)
    read = count_rows_of(of_stream, which, job.copies).events - _held(of_stream, job, unread, which)
    read *= job.times_counted(f"events.{stream.name}")
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


def _unread(lakehouse: Lakehouse, job: KeyedJob, stream: Stream, done: KeyedDone) -> list[Place]:
    """Files of the event table that the job has yet to read."""
    events = lakehouse.events(stream.name)
    read_as = next(one for one in job.all_inputs.values() if one.stream.name == stream.name)
    return [
        events / file.path for file in changes_for(job.name, read_as, events, done.positions.get(read_as.table)).files
    ]


def _held(events: Place, job: KeyedJob, files: Sequence[Place], which: pl.Expr) -> int:
    """Events of the job in these files, of the event table."""
    rows = scan_files(events, files)
    return int(rows.filter(which).select(job.copies).collect().item() or 0)


def _values(stream: Stream, values: Mapping[str, Sequence[str]]) -> Values:
    if not values:
        raise InvalidData(f"say what is to be erased, by columns of {stream.name}: {', '.join(stream.schema.names)}")
    unknown = [name for name in values if name not in stream.schema.names]
    if unknown:
        raise InvalidData(
            f"stream {stream.name} has no column {', '.join(unknown)}; it has {', '.join(stream.schema.names)}"
        )
    return typed_values(stream, values)


def _described(stream: Stream, values: Mapping[str, Sequence[str]]) -> str:
    """What was erased, without saying it: a list of erased keys would be what the erasure was to end."""
    return json.dumps(
        {name: MASK if name in stream.private else digest(json.dumps(sorted(texts))) for name, texts in values.items()}
    )


def _has(schema: pa.Schema, which: pl.Expr) -> bool:
    return all(name in schema.names for name in which.meta.root_names())


def _sums(live: Sequence[tuple[KeyedJob, Generation, KeyedDone]], which: pl.Expr) -> Iterator[str]:
    columns = set(which.meta.root_names())
    for job, _, _ in live:
        schemas = {f"state of {job.name}": job.state, **{table.name: table.schema for table in job.tables}}
        for name, schema in schemas.items():
            if not _has(schema, which):
                made = [field.name for field in schema if columns.intersection(made_of(field))]
                yield f"{name} ({', '.join(made)}: made of {', '.join(sorted(columns))})" if made else name


def _now(lakehouse: Lakehouse, job: KeyedJob) -> Generation:
    live = live_generation(lakehouse, job.name)
    assert live is not None  # noqa: S101 - it was there under the lock that is held
    return live


def _streams_of_jobs(lakehouse: Lakehouse) -> dict[str, set[str]]:
    """The streams of all jobs that have run, also of those that the project has no more."""
    found: dict[str, set[str]] = {}
    for record in sorted(lakehouse.home.glob("jobs/*/generation-*/generation.json")):
        fixed = read_json(record)["fixed"]
        inputs = fixed.get("inputs") or {}
        found[record.parent.parent.name] = {fixed["stream"], *(one["stream"] for one in inputs.values())}
    return found


def _other_jobs(lakehouse: Lakehouse, stream: Stream) -> list[str]:
    return [job for job, read in _streams_of_jobs(lakehouse).items() if stream.name not in read]


def _elsewhere(
    lakehouse: Lakehouse, stream: Stream, jobs: Sequence[KeyedJob], values: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    known = {job.name for job in jobs}
    for job, read in _streams_of_jobs(lakehouse).items():
        if stream.name in read and job not in known:
            yield (
                f"{lakehouse.job(job)}: the job is not in the project any more, or has nothing live, and its state and tables "
                "were not searched; remove the folder if nobody needs it"
            )
    if entries := texts_that_hold(lakehouse, values):
        yield f"who and why in monitoring.edits: {entries} entries hold such a value as a word of their own"
    yield f"files that landed in {lakehouse.landing(stream.name)} or elsewhere: a rebuild would read them again"
    yield "Dagster's event log and the logs of runs (DAGSTER_HOME), and Data Docs: they show rows of columns that are not private"
    yield "topics of Kafka, and answers of services that events were sent to, and what those keep"
    yield "backups of the lakehouse, and copies that others have made of its tables"
