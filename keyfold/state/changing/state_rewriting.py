"""Make a new generation from another one: rewrite its state, take over its tables and its clock.

Moving and editing use it. The old generation is not changed, and stays live until the new one is complete.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.errors import IncompatibleState, KeyfoldError, NotFound
from keyfold.journal.agreement import check_tables, has_taken_all
from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.generation.batch_records import KeyedDone, PlannedFile
from keyfold.keyed.generation.generations import Generation, Origin
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import conform
from keyfold.keyed.running.new_generation import Beginning, new_generation, seed_generation
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.carrying import carry_rows
from keyfold.lakehouse.data_files import ROWS_A_GROUP, write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.privacy import describe_error
from keyfold.state.reading.failures import explained
from keyfold.state.reading.retained_batches import find_batch, manifests_of
from keyfold.state.reading.state_rows import on_workers, partition_frames
from keyfold.storage.place import Place

ChangeRows = Callable[[pl.DataFrame], pl.DataFrame]
"""Makes rows of the new state from rows of the old one. It is called with parts of the state, in any order."""

_WRITTEN = from_arrow_schema(pa.schema([("path", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())]))


@dataclass(frozen=True)
class Rewritten:
    """The result of rewriting a generation.

    Attributes:
        generation: the new generation.
        rows_before, rows: rows of state before and after.
        table_rows: rows that the new generation's tables begin with, by table.
    """

    generation: Generation
    rows_before: int
    rows: int
    table_rows: dict[str, int]


def last_batch(job: KeyedJob, generation: Generation) -> KeyedDone:
    """Return the last commit record of a generation, after a check that its last run is complete.

    Raises:
        KeyfoldError: it has no batch, its last run was interrupted, or a table is gone or does not agree with the journal.
    """
    done = generation.journal.last_done()
    where = f"job {job.name}, {generation.name}"
    if done is None:
        raise NotFound(f"{where}: no batch is done yet; run the job once first: `keyfold run {job.name}`")
    if generation.journal.pending():
        raise KeyfoldError(f"{where}: its last run was cut off; run the job once first: `keyfold run {job.name}`")
    # Without this check, the rows of a missing table would be lost silently.
    tables = {name: generation.table(name) for name in generation.record["table_ids"]}
    remedy = f"start over: `keyfold run {job.name} --full-refresh`"
    opened = check_tables(generation.journal, tables, generation.ids, generation.identity, where, remedy)
    if not has_taken_all(generation.journal, opened, generation.identity):
        # A run makes the missing commits from the commit record. Here their rows would be lost.
        raise KeyfoldError(
            f"{where}: a table lacks its last batch; run the job once first, which commits it: `keyfold run {job.name}`"
        )
    return done


def rewrite(
    spark: Any,
    lakehouse: Lakehouse,
    job: KeyedJob,
    old: Generation,
    done: KeyedDone,
    origin: Origin,
    change: ChangeRows,
    events: int | None = None,
    partitions: int | None = None,
) -> Rewritten:
    """Make a generation from another one, which the caller makes live (`go_live`). The caller must hold the job's lock.

    Args:
        job: the job of the new generation.
        old: the live generation.
        done: its last batch, from `last_batch` under the same lock.
        origin: origin for the new generation's birth record.
        change: makes the new rows of state.
        events: number of events in the new generation's rows and state; None if it is unchanged.
        partitions: number of state partitions of the new generation; None for the runners'.

    Raises:
        KeyfoldError: the old rows do not fit the new tables, or `change` returns no valid
            state; the old generation stays live.
    """
    # The old generation is only read: a failure from here on leaves the job unchanged.
    generation = new_generation(spark, lakehouse, job, origin, partitions)
    before, files = _stage(spark, job, old, done.batch, generation.seed, change)
    reached("seed: staged")
    carried = {
        table.name: carry_rows(old.table(table.name), generation.table(table.name))
        for table in job.tables
        if old.table(table.name).exists()
    }
    reached("seed: tables carried")
    beginning = Beginning(
        files=files,
        events=done.total_events if events is None else events,
        positions=done.positions,
        watermark=done.watermark,
        rows={table.name: done.total_rows.get(table.name, 0) for table in job.tables},
        by_input=done.total_by_input if origin.counts_inputs else {},
        times=done.times,
        arrivals=done.arrivals,
        # Continue the old clock: windows that it closed must not open again.
        clock=old.clock(),
    )
    seed_generation(spark, lakehouse, job, generation, beginning)
    return Rewritten(generation, before, sum(file.rows for file in files), carried)


def _stage(
    spark: Any, job: KeyedJob, old: Generation, batch: int, folder: Place, change: ChangeRows
) -> tuple[int, tuple[PlannedFile, ...]]:
    """Write the changed state as files; returns the number of rows before, and the files."""
    folder.mkdir(parents=True, exist_ok=True)
    where = _where(old, batch)
    # The reports are bounded: one row for each written file and each task.
    reports = map_manifests(spark, old, batch, _writer(where, job, old.parts, folder, change))
    files = sorted((row["path"], row["rows"], row["bytes"]) for row in reports if row["path"])
    return (
        sum(row["rows"] for row in reports if not row["path"]),
        tuple(PlannedFile(path=path, rows=rows, bytes=size) for path, rows, size in files),
    )


def map_manifests(
    spark: Any,
    generation: Generation,
    batch: int,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> list[Any]:
    """Call a function in workers with the manifests of a state; returns the rows that it returns, which must be few.

    Raises:
        KeyfoldError: the state is damaged, or the function failed.
    """
    done = find_batch(generation, batch)
    manifests = [] if done is None else list(manifests_of(generation, done).values())
    rows = pa.table({"manifest": manifests}, pa.schema([("manifest", pa.binary())]))
    with explained(_where(generation, batch)):
        return on_workers(spark, rows, function, _WRITTEN).collect()


def _where(generation: Generation, batch: int) -> str:
    return f"job {generation.record['job']}, {generation.name}, batch {batch}"


def _frames(where: str, parts: Place, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield the rows of a state; each frame has all rows of its keys."""
    for batch in batches:
        for manifest in batch.column("manifest"):
            for frame in partition_frames(where, parts, manifest.as_buffer()):
                yield frame.drop(SLOT)


def _writer(
    where: str, job: KeyedJob, parts: Place, folder: Place, change: ChangeRows
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for `mapInArrow` that takes manifests, writes the changed rows, and reports files and row counts."""

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
        # No path: the row with the number of rows before.
        yield _report("", before, 0)

    return write


def _changed(where: str, job: KeyedJob, change: ChangeRows, rows: pl.DataFrame) -> pl.DataFrame:
    try:
        return filled(conform(change(rows), job.state, "changed state"), job.state)
    # A migration is the job's code, and may raise anything.
    except Exception as error:
        raise IncompatibleState(
            f"{where}: its rows cannot be converted to state of the changed job: {describe_error(error, job.private)}; the old "
            "generation stays live"
        ) from (None if job.private else error)


def filled(rows: pl.DataFrame, schema: pa.Schema) -> pl.DataFrame:
    """Check that rows have values in all columns that are not nullable, and return them.

    Raises:
        ValueError: a column has NULLs and must not; names it.
    """
    if empty := [field.name for field in schema if not field.nullable and rows[field.name].null_count()]:
        raise ValueError(f"{', '.join(empty)} is empty in some rows, and may not be")
    return rows


def _write(waiting: list[pl.DataFrame], folder: Place, job: KeyedJob) -> pa.RecordBatch:
    written = write_data_file(pl.concat(waiting, rechunk=True), folder, job.state)
    return _report(written.path, written.rows, written.bytes)


def _report(path: str, rows: int, size: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([path]), pa.array([rows], pa.int64()), pa.array([size], pa.int64())], names=["path", "rows", "bytes"]
    )
