"""Conservation: every event a job has read is in an output, in open state, or late; each counted by another way.

What was read is counted in the event table's log, what came of it in the job's own tables and in the state store; the
journal's counts, which the run itself wrote down, are held against both. Where an event belongs to several keys, each of
its copies counts: in the event table as its list says, without making any, so that one that is lost on the way shows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.output_table import OutputTable
from keyfold.keyed.parts.folding import state_frames
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.plans.inputs import changes_for, input_tables, rebuild_command
from keyfold.keyed.running.settled import settled
from keyfold.keyed.running.state_manifests import state_manifests
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.frames import table_frame
from keyfold.lakehouse.log_changes import Changes
from keyfold.lakehouse.presence import check_files_are_there
from keyfold.lakehouse.reading import count_rows, data_file_paths, scan_files
from keyfold.storage.place import Place


@dataclass(frozen=True)
class Conservation:
    """Where the events of a generation are; all numbers are events, each as often as the job takes it (`keys_of`).

    Attributes:
        events_read: rows of the event table up to where the job has read, by the table's log; of a job whose events
            belong to several keys the copies of those rows, by the lists in the table; of a generation that began with
            state, those since, and what that state stood for.
        in_outputs: that the rows of the job's tables stand for.
        open_events: that the state store holds.
        late: in the late table.
        journalled: that reached a step, by the journal.
        rows_read: of a job whose events belong to several keys, how many rows of the event table `events_read` are
            copies of; None of any other.
        by_input: of a job with several inputs, the events of each: by its table's log, and that reached a step, by the
            journal. Also of inputs that the other numbers do not count (`Input.conserved`). Empty of a generation that
            began with state.
        by_producer: of inputs that are tables of other jobs, the rows up to where this job has read: by the table's log, and
            that the producer wrote, by its journal. Without those of which that journal has no record any more.
    """

    events_read: int
    in_outputs: int
    open_events: int
    late: int
    journalled: int
    rows_read: int | None = None
    by_input: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    by_producer: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def balanced(self) -> bool:
        kept = self.in_outputs + self.open_events + self.late
        return self.events_read == kept == self.journalled and all(
            one == other for one, other in (*self.by_input.values(), *self.by_producer.values())
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compare: no event was read, and none is anywhere."""
        return not (self.events_read or self.in_outputs or self.open_events or self.late or self.journalled)


def check_conservation(spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob) -> Conservation:
    """Count a job's events where they came from and where they went; of a run that goes on, as of the end of a batch.

    Raises:
        KeyfoldError: the last run was interrupted, a table lacks data files, or the event table's log no longer has the
            position that the job has read up to.
    """
    generation = live_generation(lakehouse, job.name)
    # Tables, state and journal must be of one batch: what is counted would not add up.
    found = settled(lakehouse, job, generation) if generation else None
    if generation is None or found is None:
        return Conservation(0, 0, 0, 0, 0)
    done = found.done
    tables = input_tables(lakehouse, job)
    # By the tables' own logs, and not by the journal: what is compared must be counted apart.
    later = {
        one.table: changes_for(job.name, one, tables[one.table], done.positions[one.table])
        for one in job.all_inputs.values()
    }
    _check_files(
        lakehouse, job, generation, {name: one.position.version for name, one in later.items()}, found.versions
    )
    rows = {name: _rows_read(tables[name], one) for name, one in later.items()}
    read = sum(count * job.times_counted(name) for name, count in rows.items())
    rows_read = None
    if job.keys_of is not None:
        ((name, one),) = later.items()
        rows_read, read = read, events_in_table(tables[name], job, one.position.version)
        read -= _copies(tables[name], job, [tables[name] / file.path for file in one.files])
    origin = generation.origin
    if origin is not None:
        read += origin.events_seeded - origin.events_skipped
    *outputs, late = [_events_in(spark, generation, table, found.versions[table.name]) for table in job.tables]
    return Conservation(
        events_read=read,
        in_outputs=sum(outputs),
        open_events=_open_events(spark, generation, job, done.batch),
        late=late,
        journalled=done.total_events,
        rows_read=rows_read,
        by_input={}
        if origin is not None
        else {name: (rows[one.table], done.total_by_input.get(name, 0)) for name, one in job.inputs.items()},
        by_producer={
            name: (count_rows(tables[one.table], done.positions[one.table].version), written)
            for name, one in job.inputs.items()
            if one.producer is not None
            and (written := _written(lakehouse, one.producer, one.table, done.positions[one.table].version)) is not None
        },
    )


def _written(lakehouse: Lakehouse, producer: str, table: str, version: int) -> int | None:
    """The rows that a job has written to a table up to a version, by its journal; None where that has no record of it."""
    live = live_generation(lakehouse, producer)
    done = live.journal.last_done() if live else None
    if live is None or done is None:
        return None
    taken = DeltaTable(str(live.table(table)), version=version).transaction_version(f"{live.identity}/{table}")
    if done.last_written.get(table) != taken:
        # The producer has gone on.
        done = None if taken is None else live.journal.done(taken)
    return None if done is None else done.total_rows.get(table, 0)


def _rows_read(table: Place, later: Changes) -> int:
    """Rows of a table that a job has read: all, but for those that came later."""
    return count_rows(table, later.position.version) - sum(file.rows for file in later.files)


def assert_nothing_lost(spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob) -> Conservation:
    """Check that every event that a job has read is in an output, in open state, or late.

    Each side is counted another way: events by the event table's log, outputs and state by their rows.

    Raises:
        AssertionError: the counts differ; the message has all of them.
        KeyfoldError: as `check_conservation`.

    Example:
        >>> import keyfold
        >>> keyfold.assert_nothing_lost(spark, lakehouse, job).events_read  # doctest: +SKIP
        1200
    """
    found = check_conservation(spark, lakehouse, job)
    if not found.balanced:
        raise AssertionError(
            f"job {job.name}: {found.events_read:,} events were read; {found.in_outputs:,} are in outputs, "
            f"{found.open_events:,} in open state and {found.late:,} late; the journal counted "
            f"{found.journalled:,}{input_differences(found)}"
        )
    return found


def input_differences(found: Conservation) -> str:
    """Which inputs' events did not all reach a step, for people; nothing where all did."""
    differ = [
        f"{name}: {read:,} read and {reached:,} journalled"
        for name, (read, reached) in found.by_input.items()
        if read != reached
    ]
    differ += [
        f"{name}: {there:,} in its table and {written:,} written by its job"
        for name, (there, written) in found.by_producer.items()
        if there != written
    ]
    return f" ({'; '.join(differ)})" if differ else ""


def _check_files(
    lakehouse: Lakehouse,
    job: KeyedJob,
    generation: Generation,
    read: Mapping[str, int],
    versions: Mapping[str, int],
) -> None:
    """See that what is counted by logs is there: a log counts rows of files that are gone."""
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


def events_in_table(table: Place, job: KeyedJob, version: int) -> int:
    """How many events a job takes the rows of its event table for, at a version: by the log, or the lists of keys."""
    if job.keys_of is None:
        return count_rows(table, version)
    return _copies(table, job, data_file_paths(table, version))


def _copies(table: Place, job: KeyedJob, files: list[Place]) -> int:
    return int(scan_files(table, files).select(job.copies).collect().item() or 0)


def _events_in(spark: SparkSession, generation: Generation, table: OutputTable, version: int) -> int:
    """How many events a table's rows stand for at a version."""
    path = generation.table(table.name)
    if table.events.meta.eq(pl.lit(0)):
        return 0
    # One event a row: the log has told the number already.
    if table.events.meta.eq(pl.len()):
        return count_rows(path, version)
    return _sum(table_frame(spark, path, version), _counting(table.events, frames=_frames))


def _open_events(spark: SparkSession, generation: Generation, job: KeyedJob, batch: int) -> int:
    manifests = state_manifests(spark, generation, batch).select("manifest")
    return _sum(manifests, _counting(job.state_events, frames=_states(generation.parts)))


def _frames(batch: pa.RecordBatch) -> Iterator[pl.DataFrame]:
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union
    yield frame


def _states(parts: Place) -> Callable[[pa.RecordBatch], Iterator[pl.DataFrame]]:
    """Make the function that reads the rows of state that manifests name."""

    def read(batch: pa.RecordBatch) -> Iterator[pl.DataFrame]:
        for manifest in batch.column("manifest"):
            yield from state_frames(Manifest.unpack(manifest.as_buffer()), parts)

    return read


def _counting(
    events: pl.Expr, frames: Callable[[pa.RecordBatch], Iterator[pl.DataFrame]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(int(frame.select(events).item() or 0) for batch in batches for frame in frames(batch))
        yield pa.RecordBatch.from_arrays([pa.array([total], pa.int64())], names=["events"])

    return count


def _sum(rows: DataFrame, count: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> int:
    first = rows.mapInArrow(count, "events long").agg(F.sum("events")).first()
    return int(first[0] or 0) if first else 0
