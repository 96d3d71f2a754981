"""Erase all rows with given values in a stream's columns, in every state, table and record of the lakehouse.

Each job that reads the stream, directly or through other jobs, gets a new generation without these rows. All of them go live in
one step. Then the rows are erased from the quarantine and the event table, and at last from the
tables' histories. An interrupted erasure is completed by the same call.

Sums that a job has computed without keeping the columns cannot be corrected. They stay, and the report names them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from keyfold.errors import InvalidData, KeyfoldError
from keyfold.ingestion.ingest_settings import REBUILD
from keyfold.ingestion.inspection import is_unfinished
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.job_chains import in_order, made_of
from keyfold.keyed.plans.inputs import input_tables
from keyfold.lakehouse import Lakehouse, exclusive, read_json
from keyfold.lakehouse.row_erasure import forget
from keyfold.privacy import MASK
from keyfold.state.changing.audit import Author, digest, mask_keys, record_edit, texts_that_hold
from keyfold.state.changing.promoting import remove_other_generations
from keyfold.state.changing.state_rewriting import last_batch
from keyfold.state.erasure.erasing_ingest import (
    Unsearchable,
    Values,
    erase_in_ingest,
    forget_in_ingest,
    typed_values,
    unsearchable,
)
from keyfold.state.erasure.erasing_jobs import erase_in_jobs
from keyfold.state.erasure.tracing import Trace
from keyfold.stream import Stream
from keyfold.stream.sharing import check_sharing


@dataclass(frozen=True)
class Erasure:
    """The values to erase.

    Attributes:
        values: values by column of the stream. A row is erased if it has one of the values in each named column.
        author: who erases them, and why.
        remove_unsearchable: whether to remove quarantined lines that cannot be searched, since they cannot be parsed.
    """

    values: Mapping[str, Sequence[str]]
    author: Author
    remove_unsearchable: bool = False


@dataclass(frozen=True)
class Erased:
    """The result of an erasure, or of a dry run.

    Attributes:
        stream: name of the stream.
        rows: number of erased rows by place: `state of JOB`, the name of a table, `events.STREAM`, `quarantine.STREAM`,
            `aside/FOLDER/events` and `/quarantine`, `names of landing files`, and `keys in monitoring.edits`.
        sums: tables and states that do not have the columns, and may have sums over erased events.
        summed_up_by: the jobs of these, each after all jobs that it reads; a refresh computes them without the erased events.
        unsearchable: quarantined lines that cannot be parsed; they stay unless `remove_unsearchable`.
        generations: the live generations, by job.
        files_deleted: number of deleted files of the tables' histories.
        not_touched: places outside of the tables that a person should check.
    """

    stream: str
    rows: dict[str, int]
    sums: tuple[str, ...]
    summed_up_by: tuple[str, ...]
    unsearchable: Unsearchable
    generations: dict[str, str]
    files_deleted: int
    not_touched: tuple[str, ...] = field(default=())


def erase(
    spark: Any,
    lakehouse: Lakehouse,
    stream: Stream,
    jobs: Sequence[KeyedJob],
    erasure: Erasure,
    *,
    sharing: Sequence[Stream] = (),
    dry_run: bool = False,
) -> Erased:
    """Erase rows of a stream everywhere in the lakehouse; see the module's documentation.

    Args:
        jobs: every job of the project that has run, with the parameters of its live generation. Jobs that do not read the
            stream are not changed.
        erasure: the values, and who erases them and why.
        sharing: all streams that share the stream's landing folder, if it is shared. The first one's quarantine may have rows
            of the stream, and each of them has names of the files.
        dry_run: only count.

    Raises:
        KeyfoldError: the stream has no such column, a value does not fit its type, a run was interrupted, or a run has locked
            the stream or a job.
    """
    values, of_stream = _values(stream, erasure.values), f"events.{stream.name}"
    direct = {job.name for job in jobs if of_stream in input_tables(lakehouse, job)}
    chain = direct | made_of(direct, jobs)
    jobs = in_order([job for job in jobs if job.name in chain])
    trace = Trace(of_stream, stream.schema, values.wanted, jobs)
    names = sorted(one.name for one in check_sharing(sharing or [stream]))
    with ExitStack() as locks:
        if not dry_run:
            # Lock all of them: a run in between could read erased rows, or write them again.
            for name in names:
                locks.enter_context(exclusive(lakehouse.ingest(name), f"ingest of {name}"))
            for job in jobs:
                locks.enter_context(exclusive(lakehouse.job(job.name), f"job {job.name}"))
        for name in names:
            if is_unfinished(lakehouse, name) or (lakehouse.ingest(name) / REBUILD).exists():
                raise KeyfoldError(f"the last ingest of {name} was cut off; run it once first: `keyfold ingest {name}`")
        live = [(job, one, last_batch(job, one)) for job in jobs if (one := live_generation(lakehouse, job.name))]
        rows, generations = erase_in_jobs(spark, lakehouse, live, trace, dry_run=dry_run)
        # Before `erase_in_ingest`, which may remove these lines.
        unsearchable_lines = unsearchable(lakehouse, stream, values)
        rows["keys in monitoring.edits"] = mask_keys(
            lakehouse, erasure.values, not_of=_other_jobs(lakehouse, stream), dry_run=dry_run
        )
        rows |= erase_in_ingest(
            lakehouse,
            stream,
            values,
            sharing=names,
            remove_unsearchable=erasure.remove_unsearchable,
            dry_run=dry_run,
        )
        deleted = 0
        if not dry_run:
            for job, _, _ in live:
                # Old generations and branches have the rows too, and could be promoted.
                remove_other_generations(lakehouse, job.name, branches=True)
                generation = _live_now(lakehouse, job)
                deleted += sum(forget(generation.table(table.name)) for table in job.tables)
                generation.record_checksums()
            deleted += forget_in_ingest(lakehouse, stream, names)
    rows = {name: count for name, count in rows.items() if count}
    sums = list(_sums(live, trace))
    if not dry_run:
        record_edit(
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
        sums=tuple(f"{name} ({why})" if why else name for name, why, _ in sums),
        summed_up_by=tuple(dict.fromkeys(job for _, _, job in sums)),
        unsearchable=unsearchable_lines,
        generations=generations,
        files_deleted=deleted,
        not_touched=tuple(_untouched_places(lakehouse, stream, jobs, erasure.values)),
    )


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
    """Describe what was erased by digests: the values themselves must not be recorded."""
    return json.dumps(
        {name: MASK if name in stream.private else digest(json.dumps(sorted(texts))) for name, texts in values.items()}
    )


def _sums(live: Sequence[tuple[KeyedJob, Generation, KeyedDone]], trace: Trace) -> Iterator[tuple[str, str, str]]:
    """Yield the tables and states without the columns: each with the columns that depend on them, and its job."""
    for job, _, _ in live:
        schemas = {f"state of {job.name}": job.state, **{table.name: table.schema for table in job.tables}}
        for name, schema in schemas.items():
            if trace.where(job.name, schema) is None:
                made = trace.made_of_them(job.name, schema)
                yield name, f"{', '.join(made)}: made of {', '.join(trace.columns)}" if made else "", job.name


def _live_now(lakehouse: Lakehouse, job: KeyedJob) -> Generation:
    live = live_generation(lakehouse, job.name)
    assert live is not None  # noqa: S101 - the job is locked, and had a live generation
    return live


def _made_of_stream(lakehouse: Lakehouse, stream: Stream) -> dict[str, bool]:
    """Return for each job that has run whether it reads the stream, also for jobs that are no longer in the project."""
    records = [read_json(record) for record in sorted(lakehouse.home.glob("jobs/*/generation-*/generation.json"))]
    tables, size = {f"events.{stream.name}"}, 0
    # Each round adds the tables of jobs that read those known so far.
    while len(tables) > size:
        size = len(tables)
        tables.update(*(record["table_ids"] for record in records if tables.intersection(record["input_ids"])))
    return {record["job"]: bool(tables.intersection(record["input_ids"])) for record in records}


def _other_jobs(lakehouse: Lakehouse, stream: Stream) -> list[str]:
    return [job for job, is_made_of_it in _made_of_stream(lakehouse, stream).items() if not is_made_of_it]


def _untouched_places(
    lakehouse: Lakehouse, stream: Stream, jobs: Sequence[KeyedJob], values: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    known = {job.name for job in jobs}
    for job, is_made_of_it in _made_of_stream(lakehouse, stream).items():
        if is_made_of_it and job not in known:
            yield (
                f"{lakehouse.job(job)}: the job is not in the project any more, or has nothing live, and its state and tables "
                "were not searched; remove the folder if nobody needs it"
            )
    if (former := lakehouse.home / "open").is_dir():
        yield f"{former}: tables of open keys of an earlier version of Keyfold, which nothing reads; remove the folder"
    if entries := texts_that_hold(lakehouse, values):
        yield f"the columns who and why of monitoring.edits: {entries} entries contain such a value as a word"
    yield f"files that landed in {lakehouse.landing(stream.name)} or elsewhere: a rebuild would read them again"
    yield (
        "Dagster's event log and the logs of runs (DAGSTER_HOME), and Data Docs: they show values of columns that are not "
        "private"
    )
    yield "Kafka topics; services that events were sent to, and their stored answers"
    yield "backups of the lakehouse, and copies that others have made of its tables"
