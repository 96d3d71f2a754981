"""What a generation can be made of: events of its inputs, the state of another generation, or rows of a table.

A source says what state a generation begins with (none, of events), and how far in its inputs and in time it has come. Runs read on
from there. `filling` makes generations of sources.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

import polars as pl

from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.execution.writing_state import ReadShare
from keyfold.keyed.generation.batch_records import ClockRecord, InputTime, KeyedDone, Seed
from keyfold.keyed.generation.clocks import carry_clocks
from keyfold.keyed.generation.generation_record import Origin
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.key_share import KeyShare
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_reading import THREADS, partition_reads, unreadable
from keyfold.lakehouse.carrying import carry_rows
from keyfold.lakehouse.data_files import ROWS_A_GROUP
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.positions import Position
from keyfold.lakehouse.reading import count_rows, scan_parquet, scan_rows
from keyfold.runners.in_threads import in_threads
from keyfold.storage.place import Place
from keyfold.times import BEGINNING, shifted

STAGED = "source.parquet"
"""A file in a generation's folder with the rows that it is made of, until they are state."""

ROWS_AT_ONCE = 1_000_000
"""Rows of a table that a task reads at once."""


@dataclass(frozen=True)
class Beginning:
    """The state that a generation begins with, and how far it has come.

    Attributes:
        read: reads the rows in tasks, which are state once they are changed.
        seed: its size and counts.
        positions: by input table, how far the state includes it; a table that is not named is read from its beginning.
        watermark: the watermark of the state.
        times: as in the commit record.
        clock: the clock of the generation that the state is of; None if it comes from elsewhere.
        table_rows: rows that the generation's tables begin with, by table.
    """

    read: ReadShare
    seed: Seed
    positions: Mapping[str, Position]
    watermark: datetime
    times: Mapping[str, InputTime]
    clock: ClockRecord | None = None
    table_rows: Mapping[str, int] = field(default_factory=dict)


class Source(Protocol):
    """What a generation is made of.

    Attributes:
        name: describes it, for messages.
        origin: of the generation's record; None if the generation begins without state.
        span: event times that are read, from the first, before the second; None where it is open.
        share: the keys whose events are read; None for all.
    """

    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> Origin | None: ...
    @property
    def span(self) -> tuple[datetime | None, datetime | None]: ...
    @property
    def share(self) -> KeyShare | None: ...

    def begin(self, job: KeyedJob, generation: Generation) -> Beginning | None:
        """Prepare the state that a generation with empty tables begins with; None if it begins without.

        Raises:
            KeyfoldError: the tables of the source do not fit those of the job.
            OSError: the disk is full or fails.
        """
        ...


@dataclass(frozen=True)
class Events:
    """The events of the job's inputs, which runs read from their beginning. The generation begins without state.

    Attributes:
        span: event times that are read.
        share: the keys whose events are read; None for all.
    """

    span: tuple[datetime | None, datetime | None] = (None, None)
    share: KeyShare | None = None
    name = "events"
    origin = None

    def begin(self, job: KeyedJob, generation: Generation) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class StateAfter:
    """The state of another generation after its last batch. Its tables and its clock go along.

    Attributes:
        generation: the other generation, which is not changed.
        record: the commit record of its last batch.
        changes: names the settings that change.
    """

    generation: Generation
    record: KeyedDone
    changes: str
    span = (None, None)
    share = None

    @property
    def name(self) -> str:
        """Describes it, for messages."""
        return f"job {self.generation.record.job}, {self.generation.name}, batch {self.record.batch}"

    @property
    def origin(self) -> Origin:
        """That of the other generation, with what was edited since."""
        first = self.generation.origin or Origin("", "", counts_inputs=True)
        seeded = first.events_seeded + self.record.edited_events
        subject = f"{self.generation.name}, batch {self.record.batch}: {self.changes}"
        return replace(first, how="move", what=subject, events_seeded=seeded)

    def begin(self, job: KeyedJob, generation: Generation) -> Beginning:
        """Take the tables over."""
        old, record = self.generation, self.record
        table_rows = {
            table.name: carry_rows(old.table(table.name), generation.table(table.name))
            for table in job.tables
            if old.table(table.name).exists()
        }
        carry_clocks(old.clocks(), generation.folder)
        fail_point("fill: tables carried")
        seed = Seed(
            origin=f"move of {self.origin.what}",
            state_rows=self.count_rows(),
            state_bytes=record.state_bytes,
            events=record.total_events,
            rows={table.name: record.total_rows.get(table.name, 0) for table in job.tables},
            by_input=record.total_by_input if self.origin.counts_inputs else {},
            arrivals=record.arrivals,
            written_events=record.written_events,
        )
        # Continue the old clock: windows that it closed must not open again.
        return Beginning(self.parts, seed, record.positions, record.watermark, record.times, old.clock(), table_rows)

    def count_rows(self) -> int:
        """Return the number of rows of the state."""
        return self.parts.count()

    def count_table_rows(self, job: KeyedJob) -> dict[str, int]:
        """Return the number of rows of the tables that go along."""
        tables = {table.name: self.generation.table(table.name) for table in job.tables}
        return {name: count_rows(table) for name, table in tables.items() if table.exists()}

    @property
    def parts(self) -> "StateParts":
        """Reads its rows."""
        # Tasks need no more than these of a generation.
        old = self.generation
        return StateParts(self.name, old.manifests, files_of(self.record), old.parts)


@dataclass(frozen=True)
class TableRows:
    """Rows of a table, in the columns of the job's state. The generation's tables begin empty.

    Attributes:
        name: the table.
        rows: the rows.
        events: number of events in the rows.
        skipped: number of events in the inputs up to the positions.
        positions: by input table, how far the rows include it; a table that is not named is read from its beginning.
        watermark: the watermark of the rows.
    """

    name: str
    rows: pl.LazyFrame
    events: int
    skipped: int
    positions: Mapping[str, Position]
    watermark: datetime
    span = (None, None)
    share = None

    @property
    def origin(self) -> Origin:
        """Names the table. Events before the positions are never read: conservation must not count them."""
        return Origin("seed", self.name, events_skipped=self.skipped, events_seeded=self.events)

    def begin(self, job: KeyedJob, generation: Generation) -> Beginning:
        """Write the rows to a file that tasks can read."""
        file = generation.folder / STAGED
        with file.new_file() as opened:
            rows = self.rows.select(job.state.schema.names)
            rows.sink_parquet(opened, compression="lz4", statistics=False, row_group_size=ROWS_A_GROUP)
        read = _StagedRows(file, scan_parquet(file).select(pl.len()).collect().item())
        seed = Seed(
            origin=f"seed of {self.name}",
            state_rows=read.rows,
            state_bytes=file.stat().st_size,
            events=self.events,
            rows={},
        )
        # Event time is ahead of the watermark by the delay.
        begins = self.watermark == BEGINNING
        times = {
            name: InputTime(newest=None if begins else shifted(self.watermark, input_.watermark_delay))
            for name, input_ in job.inputs.items()
        }
        return Beginning(read, seed, self.positions, self.watermark, times)


@dataclass(frozen=True)
class StateParts:
    """Reads the rows of a state; a share has whole partitions."""

    state: str
    manifests: Place
    files: Mapping[int, str]
    parts: Place

    def __call__(self, share: int, shares: int) -> Iterator[pl.DataFrame]:
        for label in self.labels(share, shares):
            yield from self.of_partition(label)

    def labels(self, share: int, shares: int) -> list[int]:
        """Return the partitions of a share."""
        return sorted(self.files)[share::shares]

    def of_partition(self, label: int) -> Iterator[pl.DataFrame]:
        """Read the rows of a partition, of whole keys at a time."""
        labels = [label] if label in self.files else []
        with unreadable(self.state):
            for packed in read_manifests(self.manifests, self.files, labels).values():
                for read in partition_reads(Manifest.unpack(packed), self.parts):
                    yield read().drop(SLOT)

    def count(self) -> int:
        """Return the number of rows."""
        with unreadable(self.state):
            manifests = map(Manifest.unpack, read_manifests(self.manifests, self.files).values())
            reads = (read for manifest in manifests for read in partition_reads(manifest, self.parts, [SLOT]))
            return sum(rows.height for rows in in_threads(reads, THREADS))


@dataclass(frozen=True)
class _StagedRows:
    """Reads the rows of a file, a range of it at a time."""

    file: Place
    rows: int

    def __call__(self, share: int, shares: int) -> Iterator[pl.DataFrame]:
        # Large ranges: each makes a blob for every partition and range of slots, and small blobs cost as much as large ones.
        for offset in range(0, self.rows, ROWS_AT_ONCE)[share::shares]:
            yield scan_rows(self.file, offset, ROWS_AT_ONCE).collect().rechunk()
