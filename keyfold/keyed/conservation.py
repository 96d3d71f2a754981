"""Check conservation: every event that a job has read is in an output, in open state, or late.

Each side is counted independently: events read by the event table's log, results by the job's tables and its state. Both are
compared with the journal's counts. With `explode`, each copy of an event counts; copies of events read are counted by the
lists in the event table, so that a lost copy is noticed.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.journal.consistent_snapshot import ConsistentSnapshot, consistent_snapshot
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.plans.input_tables import changes_for, input_tables, rebuild_command
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_reading import THREADS, partition_reads
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.log_changes import Changes
from keyfold.lakehouse.positions import check_position
from keyfold.lakehouse.presence import check_files_are_there
from keyfold.lakehouse.reading import count_rows, data_file_paths, scan_files
from keyfold.runners.in_threads import in_threads
from keyfold.storage.place import Place

_STATE = ""
"""Stands for the state among the names of tables."""


@dataclass(frozen=True)
class Conservation:
    """Counts of a generation's events by place. All numbers are events; with `explode`, each copy counts.

    Attributes:
        events_read: rows of the event table up to the job's position, by the table's log, less `left_out`; with `explode` the
            copies of these rows, by the lists in the table. A generation that started with state counts the rows since, and
            the events in that state.
        in_outputs: events in rows of the job's tables; of tables whose rows replace those of other events, by the journal.
        open_events: events in state.
        late: events in the late table.
        journalled: events that reached a step, by the journal.
        rows_read: with `explode`, rows of the event table that `events_read` are copies of; None otherwise.
        by_input: the events of each input: by its table's log, and by the journal as having reached
            a step. It has inputs that the other numbers do not count too (`Input.conserved`). Empty for a generation that
            started with state of another source than the generation before it.
        by_producer: for inputs that are tables of other jobs, the rows up to this job's position: by the table's log, and by
            the producer's journal as written. Inputs for which that journal has no record any more are left out.
        left_out: rows up to the job's position for which the condition of their input (`where`) is not true, counted in the
            tables' files.
    """

    events_read: int
    in_outputs: int
    open_events: int
    late: int
    journalled: int
    rows_read: int | None = None
    by_input: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    by_producer: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    left_out: int = 0

    @property
    def balanced(self) -> bool:
        accounted_for = self.in_outputs + self.open_events + self.late
        return self.events_read == accounted_for == self.journalled and all(
            read_there == other for read_there, other in (*self.by_input.values(), *self.by_producer.values())
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compare, since all counts are zero."""
        accounted = self.in_outputs or self.open_events or self.late or self.journalled
        return not (self.events_read or self.left_out or accounted or any(map(any, self.by_input.values())))


def check_conservation(lakehouse: Lakehouse, job: KeyedJob) -> Conservation:
    """Count a job's events in its inputs and in its results. While a run is going on, counts are those at the end of a batch.

    Raises:
        KeyfoldError: the last run was interrupted, a table lacks data files, or the event table's log no longer has the
            position that the job has read up to.
    """
    generation = live_generation(lakehouse, job.name)
    # Count tables, state and journal at the end of the same batch: otherwise the counts would not add up.
    end = end_of_run(lakehouse, job, generation) if generation else None
    if generation is None or end is None:
        return Conservation(0, 0, 0, 0, 0)
    record = end.record
    tables = input_tables(lakehouse, job)
    # By the tables' own logs, and not by the journal, which the counts are compared with.
    later = {
        input_.table: changes_for(job.name, input_, tables[input_.table], record.positions[input_.table])
        for input_ in job.inputs.values()
    }
    versions = {name: table.version() for name, table in end.tables.items()}
    _check_files(
        lakehouse, job, generation, {name: changes.position.version for name, changes in later.items()}, versions
    )
    taken = {name: _taken(input_, tables[input_.table], later[input_.table]) for name, input_ in job.inputs.items()}
    read = sum(taken[name].events for name, input_ in job.inputs.items() if input_.conserved)
    origin = generation.origin
    read += record.edited_events
    if origin is not None:
        read += origin.events_seeded - origin.events_skipped
    counts = _count_results(generation, job, end)
    in_outputs = sum(counts[table.name] for table in job.tables if table.name != job.late_table) + record.written_events
    return Conservation(
        events_read=read,
        in_outputs=in_outputs,
        open_events=counts[_STATE],
        late=counts[job.late_table],
        journalled=record.total_events,
        rows_read=None
        if all(input_.exploded is None for input_ in job.inputs.values())
        else sum(taken_events.rows for taken_events in taken.values()),
        by_input={}
        if not job.counts_inputs or (origin is not None and not origin.counts_inputs)
        else {name: (taken[name].events, record.total_by_input.get(name, 0)) for name in job.inputs},
        by_producer={
            name: (count_rows(tables[input_.table], position.version), written)
            for name, input_ in job.inputs.items()
            if input_.producer is not None
            and (position := check_position(tables[input_.table], record.positions[input_.table]))
            and (written := _written(lakehouse, input_.producer, input_.table, position.version)) is not None
        },
        left_out=sum(taken_events.left_out for taken_events in taken.values()),
    )


def _written(lakehouse: Lakehouse, producer: str, table: str, version: int) -> int | None:
    """Return the rows that a job has written to a table up to a version, by its journal; None if it has no record of that."""
    live = live_generation(lakehouse, producer)
    last = live.journal.last_done() if live else None
    if live is None or last is None:
        return None
    # The newest batch of the producer that this version of the table includes.
    taken = DeltaTable(str(live.table(table)), version=version).transaction_version(f"{live.identity}/{table}")
    if last.last_written.get(table) != taken:
        # The producer has written more batches since.
        last = None if taken is None else live.journal.done(taken)
    return None if last is None else last.total_rows.get(table, 0)


class _Taken(NamedTuple):
    """Counts of an input's table: rows that the job has read, rows that the condition leaves out, and events in the others."""

    rows: int
    left_out: int
    events: int


def end_of_run(lakehouse: Lakehouse, job: KeyedJob, generation: Generation) -> ConsistentSnapshot[KeyedDone] | None:
    """Return the end of a job's newest run, at which journal, state and tables agree; None before the first batch.

    Raises:
        KeyfoldError: the last run was interrupted, or a running one does not end in time.
    """
    tables = {table.name: generation.table(table.name) for table in job.tables}
    folder = lakehouse.job(job.name)
    snapshot = consistent_snapshot(generation.journal, tables, generation.identity, folder, whole_runs=True)
    if snapshot is not None and not snapshot.is_whole:
        raise KeyfoldError(f"job {job.name}: its last run was cut off; run it again before counting its events")
    return snapshot


def _taken(input_: Input, table: Place, later: Changes) -> _Taken:
    # All rows, but for those that came later.
    rows = count_rows(table, later.position.version) - sum(file.rows for file in later.files)
    if input_.exploded is None and input_.condition is None:
        return _Taken(rows, 0, rows)
    parts = data_file_paths(table, later.position.version), [table / file.path for file in later.files]
    wanted = input_.taken.cast(pl.Int64).alias("events"), (~input_.is_wanted).sum().cast(pl.Int64).alias("left_out")
    there, new = (scan_files(table, files).select(wanted).collect().row(0) for files in parts)
    events, left_out = there[0] - new[0], there[1] - new[1]
    # Rows less those for which the condition is false. Workers count rows for which it is true, so that a lost row is noticed.
    return _Taken(rows, left_out, rows - left_out if input_.exploded is None else events)


def assert_nothing_lost(lakehouse: Lakehouse, job: KeyedJob) -> Conservation:
    """Check that every event that a job has read is in an output, in open state, or late.

    Each side is counted independently: events by the event table's log, outputs and state by their rows.

    Raises:
        AssertionError: the counts differ; the message has all of them.
        KeyfoldError: as `check_conservation`.

    Example:
        >>> import keyfold
        >>> keyfold.assert_nothing_lost(lakehouse, job).events_read  # doctest: +SKIP
        1200
    """
    counts = check_conservation(lakehouse, job)
    if not counts.balanced:
        raise AssertionError(
            f"job {job.name}: {counts.events_read:,} events were read; {counts.in_outputs:,} are in outputs, "
            f"{counts.open_events:,} in open state and {counts.late:,} late; the journal counted "
            f"{counts.journalled:,}{input_differences(counts)}"
        )
    return counts


def input_differences(counts: Conservation) -> str:
    """Describe the inputs whose counts differ; empty if none do."""
    differ = [
        f"{name}: {read:,} read and {counted_there:,} journalled"
        for name, (read, counted_there) in counts.by_input.items()
        if read != counted_there
    ]
    differ += [
        f"{name}: {in_table:,} in its table and {written:,} written by its job"
        for name, (in_table, written) in counts.by_producer.items()
        if in_table != written
    ]
    return f" ({'; '.join(differ)})" if differ else ""


def _check_files(
    lakehouse: Lakehouse,
    job: KeyedJob,
    generation: Generation,
    read: Mapping[str, int],
    versions: Mapping[str, int],
) -> None:
    """Check that the files of all tables exist: a log also counts rows of files that are gone."""
    refresh = lakehouse.command("run", job.name, "--full-refresh")
    for name, table in input_tables(lakehouse, job).items():
        rebuild = rebuild_command(lakehouse, job, name)
        delta = DeltaTable(str(table), version=read[name])
        check_files_are_there(table, delta, name, f"run `{rebuild}`, and then `{refresh}`")
    for name, at in versions.items():
        table = generation.table(name)
        check_files_are_there(
            table, DeltaTable(str(table), version=at), f"job {job.name}: its table {name}", f"run `{refresh}`"
        )


def events_in_table(table: Place, name: str, job: KeyedJob, version: int) -> int:
    """Return the number of a job's events in the rows of a table at a version (`KeyedJob.counted_in`)."""
    of_table = [input_ for input_ in job.inputs.values() if input_.table == name and input_.conserved]
    if all(input_.exploded is None and input_.condition is None for input_ in of_table):
        return count_rows(table, version) * len(of_table)
    rows = scan_files(table, data_file_paths(table, version))
    return int(rows.select(job.counted_in(name)).collect().item() or 0)


def _count_results(generation: Generation, job: KeyedJob, at: ConsistentSnapshot[KeyedDone]) -> Counter[str]:
    """Return the number of events in each of a job's tables, and in its state."""
    counts = Counter(
        {
            table.name: _events_in(generation.table(table.name), at.tables[table.name].version(), table.events)
            for table in job.tables
            if not table.counts_written
        }
    )
    manifests = map(Manifest.unpack, read_manifests(generation.manifests, files_of(at.record)).values())
    columns = job.state.events.meta.root_names()
    reads = (read for manifest in manifests for read in partition_reads(manifest, generation.parts, columns))
    counts[_STATE] = sum(in_threads((partial(_counted, read, job.state.events) for read in reads), THREADS))
    return counts


def _events_in(table: Place, version: int, events: pl.Expr) -> int:
    # One event per row: the log has the number.
    if events.meta.eq(pl.len()):
        return count_rows(table, version)
    if events.meta.eq(pl.lit(0)):
        return 0
    rows = scan_files(table, data_file_paths(table, version)).select(events)
    return int(rows.collect(engine="streaming").item() or 0)


def _counted(read: Callable[[], pl.DataFrame], events: pl.Expr) -> int:
    return int(read().select(events).item() or 0)
