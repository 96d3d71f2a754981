"""A new generation made of another one: its state rewritten, its tables' files under a second name, its clock gone on with.

What moving and editing have in common. Nothing of the old generation is touched, and it stays live until the new one is
whole.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from keyfold.errors import IncompatibleState, KeyfoldError, NotFound
from keyfold.journal.agreement import check_tables, has_taken_all
from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.generation.batch_records import KeyedDone, PlannedFile
from keyfold.keyed.generation.checkpoint import finished_batch
from keyfold.keyed.generation.generations import Generation, Origin, go_live
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import conform
from keyfold.keyed.running.new_generation import new_generation
from keyfold.keyed.running.seeding import Beginning, seed_generation
from keyfold.keyed.running.state_manifests import state_manifests
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.carrying import carry_rows
from keyfold.lakehouse.data_files import ROWS_A_GROUP, write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.positions import Position
from keyfold.lakehouse.row_erasure import erased_rows
from keyfold.privacy import describe_error
from keyfold.state.reading.failures import explained
from keyfold.state.reading.reader import partition_frames
from keyfold.state.reading.retained_batches import find_batch
from keyfold.storage.place import Place

ChangeRows = Callable[[pl.DataFrame], pl.DataFrame]
"""From rows of the old state to rows of the new one: of any part of it, in any order."""

_WRITTEN = "path string, rows long, bytes long"


@dataclass(frozen=True)
class Rewritten:
    """What came of a rewriting.

    Attributes:
        generation: the new one.
        rows_before, rows: of state.
        table_rows: that the new generation's tables begin with.
    """

    generation: Generation
    rows_before: int
    rows: int
    table_rows: dict[str, int]


def last_batch(job: KeyedJob, generation: Generation) -> KeyedDone:
    """The batch that a generation stands at.

    Raises:
        KeyfoldError: it has none, its last run was cut off, or a table of it is gone or of another time.
    """
    done = generation.journal.last_done()
    where = f"job {job.name}, {generation.name}"
    if done is None:
        raise NotFound(f"{where}: no batch is done yet; run the job once first: `keyfold run {job.name}`")
    if generation.journal.pending() or finished_batch(generation.checkpoint) != done.batch:
        raise KeyfoldError(f"{where}: its last run was cut off; run the job once first: `keyfold run {job.name}`")
    # A table that is gone would stay behind without a word.
    ids = generation.record["table_ids"]
    tables = {name: generation.table(name) for name in ids}
    remedy = f"start over: `keyfold run {job.name} --full-refresh`"
    opened = check_tables(generation.journal, tables, ids, generation.identity, where, remedy)
    if not has_taken_all(generation.journal, opened, generation.identity):
        # What is missing is made by a run from the commit record; here it would stay behind.
        raise KeyfoldError(
            f"{where}: a table lacks its last batch; run the job once first, which commits it: `keyfold run {job.name}`"
        )
    return done


def rewrite(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    old: Generation,
    origin: Origin,
    change: ChangeRows,
    events: int | None = None,
) -> Rewritten:
    """Make a generation of another one and make it live, in one step; call it under the job's lock.

    Args and errors are those of `rewrite_beside`.
    """
    rewritten = rewrite_beside(spark, lakehouse, job, old, origin, change, events=events)
    go_live(lakehouse, rewritten.generation)
    return rewritten


def rewrite_beside(
    spark: SparkSession,
    lakehouse: Lakehouse,
    job: KeyedJob,
    old: Generation,
    origin: Origin,
    change: ChangeRows,
    change_tables: Callable[[Generation], None] | None = None,
    events: int | None = None,
    positions: Mapping[str, Position] | None = None,
) -> Rewritten:
    """Make a generation of another one, which is not live yet; call it under the job's lock.

    Args:
        spark: reads the old state and takes in the new one.
        lakehouse: where the job is.
        job: as the new generation is to run it.
        old: the one that is live.
        origin: to be written into the new one's record.
        change: what becomes of the state's rows.
        change_tables: called with the new generation once its tables hold the old one's rows, and before it goes live.
        events: that the new generation's rows and state stand for, where those are others than the old one's.
        positions: where it goes on in tables that are others than those that the old one has read.

    Raises:
        KeyfoldError: the old generation is not whole, its rows do not fit the new tables, or `change` gives no state of
            the job; the old one stays live.
    """
    done = last_batch(job, old)
    # Beside the old one, which is only read: whatever fails from here on leaves the job as it was.
    generation = new_generation(spark, lakehouse, job, origin)
    before, files = _stage(spark, job, old, done.batch, generation.seed, change)
    reached("seed: staged")
    carried = {
        table.name: carry_rows(old.table(table.name), generation.table(table.name))
        for table in job.tables
        if old.table(table.name).exists()
    }
    erased: dict[str, int] = {}
    if change_tables is not None:
        change_tables(generation)
        erased = {table.name: erased_rows(generation.table(table.name)) for table in job.tables}
    reached("seed: tables carried")
    beginning = Beginning(
        files=files,
        events=done.total_events if events is None else events,
        positions={**done.positions, **(positions or {})},
        watermark=done.watermark,
        rows={table.name: done.total_rows.get(table.name, 0) - erased.get(table.name, 0) for table in job.tables},
        times=done.times,
        arrivals=done.arrivals,
        # Time goes on where it stood: what was closed by it must not be open again.
        clock=old.clock(),
    )
    seed_generation(spark, lakehouse, job, generation, beginning)
    return Rewritten(generation, before, sum(file.rows for file in files), carried)


def _stage(
    spark: SparkSession, job: KeyedJob, old: Generation, batch: int, folder: Place, change: ChangeRows
) -> tuple[int, tuple[PlannedFile, ...]]:
    """Write the changed state as files; gives how many rows it had before, and the files."""
    folder.mkdir(parents=True, exist_ok=True)
    # Bounded: a row a written file and one a task.
    where = _where(old, batch)
    told = map_manifests(spark, old, batch, _writer(where, job, old.parts, folder, change))
    files = sorted((row["path"], row["rows"], row["bytes"]) for row in told if row["path"])
    return (
        sum(row["rows"] for row in told if not row["path"]),
        tuple(PlannedFile(path=path, rows=rows, bytes=size) for path, rows, size in files),
    )


def map_frames(
    spark: SparkSession, generation: Generation, batch: int, found: Callable[[pl.DataFrame], Mapping[str, int]]
) -> list[dict[str, int]]:
    """Have workers call a function with rows of whole keys of a state; gives the numbers that it tells.

    Raises:
        KeyfoldError: the state is damaged.
    """
    where = _where(generation, batch)

    folder = generation.parts

    def count(manifests: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _frames(where, folder, manifests):
            yield _told(json.dumps(found(rows)), 0, 0)

    return [json.loads(row["path"]) for row in map_manifests(spark, generation, batch, count)]


def map_manifests(
    spark: SparkSession,
    generation: Generation,
    batch: int,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> list[Any]:
    """Have workers call a function with the manifests of a state; gives the rows that it tells.

    Raises:
        KeyfoldError: the state is damaged, or the function failed.
    """
    find_batch(generation, batch)  # its files are looked at
    session = spark.newSession()
    with explained(_where(generation, batch)):
        return state_manifests(session, generation, batch).mapInArrow(function, _WRITTEN).collect()


def _where(generation: Generation, batch: int) -> str:
    return f"job {generation.record['job']}, {generation.name}, batch {batch}"


def _frames(where: str, parts: Place, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """The rows of a state, each frame with all rows of its keys."""
    for batch in batches:
        for manifest in batch.column("manifest"):
            for frame in partition_frames(where, parts, manifest.as_buffer()):
                yield frame.drop(SLOT)


def _writer(
    where: str, job: KeyedJob, parts: Place, folder: Place, change: ChangeRows
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow`: manifests of state in, files of changed rows and the count of old ones out."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pl.DataFrame] = []
        before = height = 0
        for rows in _frames(where, parts, batches):
            before += rows.height
            waiting.append(_changed(where, job, change, rows))
            height += waiting[-1].height
            if height >= ROWS_A_GROUP:
                yield _write(waiting, folder, job)
                waiting, height = [], 0
        if height:
            yield _write(waiting, folder, job)
        yield _told("", before, 0)

    return write


def _changed(where: str, job: KeyedJob, change: ChangeRows, rows: pl.DataFrame) -> pl.DataFrame:
    try:
        return filled(conform(change(rows), job.state, "changed state"), job.state)
    # A migration is the job's own code, and may raise anything.
    except Exception as error:
        raise IncompatibleState(
            f"{where}: its rows do not become state of the job as it is now: {describe_error(error, job.private)}; "
            f"{where.split(', ')[1]} stays live"
        ) from (None if job.private else error)


def filled(rows: pl.DataFrame, schema: pa.Schema) -> pl.DataFrame:
    """The rows, seen to have a value wherever they must.

    Raises:
        ValueError: a column that may not be empty is, in some row; the message names it.
    """
    if empty := [field.name for field in schema if not field.nullable and rows[field.name].null_count()]:
        raise ValueError(f"{', '.join(empty)} is empty in some rows, and may not be")
    return rows


def _write(waiting: list[pl.DataFrame], folder: Place, job: KeyedJob) -> pa.RecordBatch:
    written = write_data_file(pl.concat(waiting, rechunk=True), folder, job.state)
    return _told(written.path, written.rows, written.bytes)


def _told(path: str, rows: int, size: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([path]), pa.array([rows], pa.int64()), pa.array([size], pa.int64())], names=["path", "rows", "bytes"]
    )
