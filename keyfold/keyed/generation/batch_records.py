"""Define the records of a keyed job's journal: plans, commit records, and the clock between batches."""

from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field

from keyfold.errors import counted
from keyfold.journal import Done, Plan
from keyfold.journal.clock import Reading
from keyfold.keyed.generation.declaration import Declaration
from keyfold.keyed.rows.key_share import KeyShare
from keyfold.lakehouse.data_files import PathBelow
from keyfold.lakehouse.positions import Position
from keyfold.validation import Record


@dataclass(frozen=True)
class Counts:
    """Counts of events and rows, of a batch or of a whole generation.

    Attributes:
        events: events that reached a step, of all inputs, also of those that conservation does not count; with `explode`, each
            copy counts.
        rows: rows that were written, by table, with the late table.
        open_events: growth of the number of events in open state; for a whole generation, that number.
    """

    events: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    open_events: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.events + other.events,
            {name: self.rows.get(name, 0) + other.rows.get(name, 0) for name in {**self.rows, **other.rows}},
            self.open_events + other.open_events,
        )

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(
            self.events - other.events,
            {name: count - other.rows.get(name, 0) for name, count in self.rows.items()},
            self.open_events - other.open_events,
        )


class PlannedFile(Record):
    """A data file from which a batch reads the rows of its slice.

    Attributes:
        path: path below the table's folder.
        rows, bytes: size of the whole file.
        whole: whether all rows are in the slice, so that the reader need not filter them.
    """

    path: PathBelow
    rows: int
    bytes: int
    whole: bool = True


class TableInput(Record):
    """The part of a table that a batch reads.

    Attributes:
        table: name of the table in the lakehouse.
        input: name of the job's input; two inputs may read the same table.
        position: the position in the table up to which the run reads.
        arrived: the newest arrival of the events that the run reads; None where the table's log does not say it.
        files: files with rows of the batch's slice.
    """

    table: str
    input: str
    position: Position
    arrived: datetime | None = None
    files: tuple[PlannedFile, ...] = ()


class PlannedClock(Record):
    """The clock of a batch; see `Clock`. `advanced_by` says what advanced event time, if events did not."""

    previous_watermark: datetime
    watermark: datetime
    processing_time: datetime
    advanced_by: str = ""
    watermarks: dict[str, datetime] = Field(default_factory=dict)


class InputTime(Record):
    """The event time that an input has reached.

    Attributes:
        newest: the newest event time so far; None before the first event.
        arrived_at: the processing time when the last events were planned; before the first event, of the job's first run.
        stands_in: whether `newest` is an arrival, since no event had its own time so far (`plans.event_time`).
    """

    newest: datetime | None = None
    arrived_at: datetime | None = None
    stands_in: bool = False


class Seed(Record):
    """The state that a generation begins with, and the counts up to then.

    Attributes:
        origin: what made the state, and of what.
        state_rows, state_bytes: size of what it was made of.
        events: events that had reached a step, with those in the state.
        by_input: the same by input; empty where that is not known.
        rows: rows in the tables that it starts with, by table.
        arrivals, written_events: as in the commit record.
    """

    origin: str
    state_rows: int
    state_bytes: int
    events: int
    rows: dict[str, int]
    by_input: dict[str, int] = Field(default_factory=dict)
    arrivals: tuple[datetime, ...] = ()
    written_events: int = 0


class Span(Record):
    """A span of event time, whose rows a batch replaces, and which event times of a row; see `job.row_times`.

    Attributes:
        since, until: bounds, the first inclusive and the second exclusive; None for no bound.
        tables: the tables whose rows are replaced, each with the number of rows that go.
        note: describes it.
        declaration: what the job declares from this batch on, if that is not what its generation was created with.
    """

    since: datetime | None = None
    until: datetime | None = None
    tables: dict[str, int] = Field(default_factory=dict)
    note: str = ""
    declaration: Declaration | None = None


class KeyedPlan(Plan):
    """A batch of a keyed job: the rows of its inputs in a slice of event time, and its clock.

    Attributes:
        inputs: the part of each table that it reads.
        seed: the state that the batch writes. Such a batch is the first of its generation, and reads no events.
        edit: describes an edit of state; empty for any other batch. An edit reads no events, and writes to no table. One that
            was cut off is committed by the next run as a batch that edits nothing.
        new_code: what changed in the code of the job's functions before this batch; empty for nothing.
        since, until: bounds of the slice, the first inclusive and the second exclusive; None for no bound.
        clock: the clock of the batch.
        times: the event time that each input has reached, by its name.
        lookups: the stored file of each lookup, by its name (`job.lookups`).
        reading: the readings of the machine's clocks.
        rows: estimated rows.
        share: the keys whose events it reads; None for all.
    """

    inputs: tuple[TableInput, ...]
    seed: Seed | None = None
    edit: str = ""
    new_code: str = ""
    since: datetime | None = None
    until: datetime | None = None
    clock: PlannedClock
    times: dict[str, InputTime] = Field(default_factory=dict)
    lookups: dict[str, str] = Field(default_factory=dict)
    reading: Reading
    rows: int = 0
    share: KeyShare | None = None

    @property
    def amount(self) -> int:
        """Estimated rows."""
        return self.rows

    @property
    def bytes(self) -> int:
        """Bytes of the files that the batch reads, some of them in part."""
        of_events = sum(file.bytes for input_ in self.inputs for file in input_.files)
        return of_events + (self.seed.state_bytes if self.seed else 0)

    def describe(self) -> str:
        """Describe the batch's input in a line."""
        if self.seed is not None:
            watermark = f"watermark at {self.clock.watermark:%Y-%m-%d %H:%M:%S}"
            return f"{self.seed.origin}: {counted(self.seed.state_rows, 'row')} of state; {watermark}"
        if self.edit:
            return self.edit
        files = sum(len(input_.files) for input_ in self.inputs)
        names = ", ".join(f"{input_.table} to version {input_.position.version}" for input_ in self.inputs)
        by = f" by {self.clock.advanced_by}" if self.clock.advanced_by else ""
        code = f"; {self.new_code}" if self.new_code else ""
        return f"{files} files of {names}; watermark to {self.clock.watermark:%Y-%m-%d %H:%M:%S}{by}{code}"


class KeyedDone(Done):
    """The commit record of a batch of a keyed job.

    Attributes:
        positions: the position up to which each input table is read completely; the last batch of a run advances it.
        watermark: the watermark after the batch.
        times: as in the plan.
        arrivals: processing times of the last runs that brought events, to compute the usual gap between deliveries.
        events: events that reached a step in this batch.
        by_input: events of each input; also those that `events` does not count.
        rows: rows that this batch wrote, by table; less those that it replaced.
        open_change: growth of the number of events in open state.
        edited: what an edit changed; empty for any other batch.
        replaced: the span whose rows this batch replaced; None for any other batch.
        edited_events: events that edits of the generation have added to its state so far, less those that they took out.
        written_events: events in rows of the generation's tables whose events count when they are written
            (`OutputTable.counts_written`).
        total_events, total_by_input, total_rows, open_events: the same for the whole generation.
        next_deadline, next_processing_deadline: the earliest timer of each kind in the state; None if there is none.
        processing_time: processing time of the batch; it never goes back.
        state_bytes: size of the state after the batch.
        manifests: the files with the manifests of state partitions, each with the labels of its partitions
            (`generation.manifests`). Partitions without state are left out.
        dropped_parts: files of state parts that the state no longer needs after this batch.
        runner: which runner the batch had, and why.
    """

    positions: dict[str, Position]
    watermark: datetime
    times: dict[str, InputTime] = Field(default_factory=dict)
    arrivals: tuple[datetime, ...] = ()
    events: int = 0
    by_input: dict[str, int] = Field(default_factory=dict)
    rows: dict[str, int]
    open_change: int = 0
    edited: str = ""
    replaced: Span | None = None
    edited_events: int = 0
    written_events: int = 0
    total_events: int = 0
    total_by_input: dict[str, int] = Field(default_factory=dict)
    total_rows: dict[str, int]
    open_events: int = 0
    next_deadline: datetime | None = None
    next_processing_deadline: datetime | None = None
    processing_time: datetime | None = None
    state_bytes: int = 0
    manifests: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    dropped_parts: tuple[str, ...] = ()
    runner: str = ""

    @property
    def counts(self) -> Counts:
        """The counts of this batch."""
        return Counts(sum(self.by_input.values()) if self.by_input else self.events, self.rows, self.open_change)

    @property
    def totals(self) -> Counts:
        """The counts of the generation up to this batch."""
        # A generation that was seeded began with events that `total_by_input` lacks.
        events = max(self.total_events, sum(self.total_by_input.values()))
        return Counts(events, self.total_rows, self.open_events)

    def describe(self) -> str:
        """Describe the batch's results in a line."""
        rows = ", ".join(f"{count:,} {name}" for name, count in self.rows.items() if count) or "no rows"
        if self.edited:
            return f"{self.edited}; {self.open_events:,} open"
        return f"{self.counts.events:,} events: {rows}; {self.open_events:,} open"


class ClockRecord(Record):
    """The clock after the last run. A run without events and without due timers makes no batch, and only advances the clock.

    Attributes:
        watermark, processing_time: the times that were reached.
        reading: the readings of the machine's clocks.
    """

    watermark: datetime
    processing_time: datetime
    reading: Reading
