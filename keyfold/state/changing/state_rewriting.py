"""Make a new generation from another one: rewrite its state, take over its tables and its clock.

The old generation is not changed, and stays live until the new one is complete.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa

from keyfold.errors import IncompatibleState, KeyfoldError, NotFound
from keyfold.journal.agreement import check_tables, has_taken_all
from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.execution.new_generation import new_generation, seed_generation
from keyfold.keyed.generation.batch_records import KeyedDone, PlannedFile, Seed
from keyfold.keyed.generation.generation_record import Origin
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import conform
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.carrying import carry_rows
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.reading import count_rows
from keyfold.privacy import describe_error
from keyfold.runners import Runners
from keyfold.state.reading.export import of_bounded_size
from keyfold.state.reading.reader import read_state
from keyfold.state.reading.state_rows import StateRows
from keyfold.storage.place import Place

ChangeRows = Callable[[pl.DataFrame], pl.DataFrame]
"""Makes rows of the new state from rows of the old one. It is called with parts of the state, in any order."""


@dataclass(frozen=True)
class Rewritten:
    """The result of rewriting a generation, or what it would take along.

    Attributes:
        generation: the new generation, or the old one if nothing was rewritten.
        rows_before, rows: rows of state before and after.
        table_rows: rows that the new generation's tables begin with, by table.
    """

    generation: Generation
    rows_before: int
    rows: int | None
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
    # An edit that was cut off has changed nothing.
    if any(not plan.edit for plan in generation.journal.pending()):
        raise KeyfoldError(f"{where}: its last run was cut off; run the job once first: `keyfold run {job.name}`")
    # Without this check, the rows of a missing table would be lost silently.
    tables = {name: generation.table(name) for name in generation.record.table_ids}
    remedy = f"start over: `keyfold run {job.name} --full-refresh`"
    opened = check_tables(generation.journal, tables, generation.ids, generation.identity, where, remedy)
    if not has_taken_all(generation.journal, opened, generation.identity):
        # A run makes the missing commits from the commit record. Here their rows would be lost.
        raise KeyfoldError(
            f"{where}: a table lacks its last batch; run the job once first, which commits it: `keyfold run {job.name}`"
        )
    return done


def rewrite(
    lakehouse: Lakehouse,
    job: KeyedJob,
    old: Generation,
    what: str,
    change: ChangeRows,
    partitions: int | None = None,
    *,
    runners: Runners,
) -> Rewritten:
    """Make a generation from another one, which the caller makes live (`go_live`). The caller must hold the job's lock.

    Args:
        job: the job of the new generation.
        old: the live generation.
        what: the settings that change.
        change: makes the new rows of state.
        partitions: number of state partitions of the new generation; None for the runners'.

    Raises:
        KeyfoldError: the old rows do not fit the new tables, or `change` returns no valid
            state; the old generation stays live.
    """
    # The old generation is only read: a failure from here on leaves the job unchanged.
    done, began = last_batch(job, old), old.origin or Origin("", "", counts_inputs=True)
    origin = replace(
        began,
        how="move",
        what=f"{old.name}, batch {done.batch}: {what}",
        events_seeded=began.events_seeded + done.edited_events,
    )
    generation = new_generation(runners, lakehouse, job, origin, partitions)
    state = read_state(lakehouse, job, generation=old.name, batch=done.batch)
    before, files = _stage(job, state, generation.seed, change)
    reached("seed: staged")
    carried = {
        table.name: carry_rows(old.table(table.name), generation.table(table.name))
        for table in job.tables
        if old.table(table.name).exists()
    }
    reached("seed: tables carried")
    seed = Seed(
        origin=f"move of {origin.what}",
        files=files,
        events=done.total_events,
        rows={table.name: done.total_rows.get(table.name, 0) for table in job.tables},
        by_input=done.total_by_input if origin.counts_inputs else {},
        arrivals=done.arrivals,
        written_events=done.written_events,
    )
    # Continue the old clock: windows that it closed must not open again.
    clock = old.clock()
    seed_generation(runners, lakehouse, job, generation, seed, done.positions, done.watermark, done.times, clock)
    return Rewritten(generation, before, sum(file.rows for file in files), carried)


def count_to_rewrite(job: KeyedJob, old: Generation, state: StateRows) -> Rewritten:
    """Count what `rewrite` would take along, after the same checks of the old generation."""
    last_batch(job, old)
    names = [table.name for table in job.tables if old.table(table.name).exists()]
    rows = sum(state.map_slots(lambda rows: rows.height, job.key))
    return Rewritten(old, rows, None, {name: count_rows(old.table(name)) for name in names})


def _stage(job: KeyedJob, state: StateRows, folder: Place, change: ChangeRows) -> tuple[int, tuple[PlannedFile, ...]]:
    """Write the changed state as files; returns the number of rows before, and the files."""
    folder.mkdir(parents=True, exist_ok=True)
    before = 0

    def changed(rows: pl.DataFrame) -> tuple[int, pl.DataFrame]:
        return rows.height, _changed(state.where, job, change, rows.drop(SLOT))

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal before
        for count, rows in state.map_slots(changed):
            before += count
            yield rows

    written = [write_data_file(rows, folder, job.state.schema) for rows in of_bounded_size(frames())]
    files = [PlannedFile(path=one.path, rows=one.rows, bytes=one.bytes) for one in written]
    return before, tuple(sorted(files, key=lambda file: file.path))


def _changed(where: str, job: KeyedJob, change: ChangeRows, rows: pl.DataFrame) -> pl.DataFrame:
    try:
        return filled(conform(change(rows), job.state.schema, "changed state"), job.state.schema)
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
