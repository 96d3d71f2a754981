"""What the journal of a keyed job says: slices of an event table and their clocks, and what came of them."""

from dataclasses import dataclass, field
from datetime import datetime

from pydantic import Field

from keyfold.journal import Done, Plan
from keyfold.journal.clock import Reading
from keyfold.journal.records import Record
from keyfold.lakehouse.positions import Position


@dataclass(frozen=True)
class Counts:
    """What came in and went out: events and rows, of one batch or of all of a generation.

    Attributes:
        events: that reached a step, each as often as the job takes it (`keys_of`).
        rows: written, by table, the late table too.
        open_events: by how much open state grew; over a whole generation, what is open.
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
    """A data file of which a batch reads the rows of its slice of time.

    Attributes:
        path: below its table's folder.
        rows, bytes: of the whole file.
        whole: whether all its rows are of the slice, so that none needs a look at its time.
    """

    path: str
    rows: int
    bytes: int
    whole: bool = True


class TableInput(Record):
    """What a batch reads of a table.

    Attributes:
        table: its name in the lakehouse.
        input: the name of the job's input that it is read as; two inputs may read one table.
        position: up to which position in the table the run reads.
        files: that hold rows of the batch's slice.
    """

    table: str
    input: str
    position: Position
    files: tuple[PlannedFile, ...] = ()


class PlannedClock(Record):
    """The clock of a batch; see `contract.Clock`. `advanced_by` says what moved event time, where no event did."""

    late_watermark: datetime
    watermark: datetime
    processing_time: datetime
    advanced_by: str = ""
    watermarks: dict[str, datetime] = Field(default_factory=dict)


class InputTime(Record):
    """How far the event time of an input has come.

    Attributes:
        newest: the newest event time of its events so far; None before any.
        arrived_at: the processing time at which the last of them were planned; before any, at which the job first ran.
        stands_in: whether `newest` is an arrival, since no event had a time of its own so far (`event_time`).
    """

    newest: datetime | None = None
    arrived_at: datetime | None = None
    stands_in: bool = False


class Seed(Record):
    """State that a generation begins with, and what had come of it before.

    Attributes:
        files: its rows, below the generation's folder `seed`.
        events: that had reached a step, those that the state stands for among them.
        rows: that the tables it begins with hold, by table.
        arrivals: as in the commit record.
    """

    files: tuple[PlannedFile, ...]
    events: int
    rows: dict[str, int]
    arrivals: tuple[datetime, ...] = ()


class KeyedPlan(Plan):
    """A batch of a keyed job: the rows of its inputs in a slice of event time, and its clock.

    Attributes:
        inputs: what it reads, of each table.
        seed: state that it takes in; such a batch is a generation's first, and reads no events.
        since, until: the slice: rows at or after the one and before the other; None for no bound.
        clock: what time it is in the batch.
        times: how far each input has come, by name.
        lookups: the kept file of each lookup, as the job's steps get it (`lookups`).
        reading: what the machine's clocks said.
        rows_before, rows, rows_of_run: estimates, for progress: rows of the run's earlier batches, of this, of all.
    """

    inputs: tuple[TableInput, ...]
    seed: Seed | None = None
    since: datetime | None = None
    until: datetime | None = None
    clock: PlannedClock
    times: dict[str, InputTime] = Field(default_factory=dict)
    lookups: dict[str, str] = Field(default_factory=dict)
    reading: Reading
    rows_before: int = 0
    rows: int = 0
    rows_of_run: int = 0

    def describe(self) -> str:
        """What the batch reads, in a line for people."""
        if self.seed is not None:
            rows = sum(file.rows for file in self.seed.files)
            return f"{rows:,} rows of state; watermark at {self.clock.watermark:%Y-%m-%d %H:%M:%S}"
        files = sum(len(one.files) for one in self.inputs)
        names = ", ".join(f"{one.table} to version {one.position.version}" for one in self.inputs)
        by = f" by {self.clock.advanced_by}" if self.clock.advanced_by else ""
        return f"{files} files of {names}; watermark to {self.clock.watermark:%Y-%m-%d %H:%M:%S}{by}"


class KeyedDone(Done):
    """What a batch of a keyed job made.

    Attributes:
        positions: in each input table, up to which all is read; a run's last batch moves it.
        watermark: event time reached.
        times: as in the plan.
        arrivals: the processing times of the last runs that brought events, for the usual gap between them.
        events: that reached a step in this batch.
        by_input: those of each input of a job with several, and all of them, also those that `events` does not count.
        rows: written in this batch, by table.
        open_change: by how many events open state grew.
        total_events, total_by_input, total_rows, open_events: the same over the whole generation.
        next_deadline, next_stale_at: the earliest of all that is kept; None of nothing.
        processing_time: of the batch; a later one's is never less.
        state_bytes: size of the state after the batch.
        dropped_parts: files of the state before the batch that the state after it does not have.
    """

    positions: dict[str, Position]
    watermark: datetime
    times: dict[str, InputTime] = Field(default_factory=dict)
    arrivals: tuple[datetime, ...] = ()
    events: int = 0
    by_input: dict[str, int] = Field(default_factory=dict)
    rows: dict[str, int]
    open_change: int = 0
    total_events: int = 0
    total_by_input: dict[str, int] = Field(default_factory=dict)
    total_rows: dict[str, int]
    open_events: int = 0
    next_deadline: datetime | None = None
    next_stale_at: datetime | None = None
    processing_time: datetime | None = None
    state_bytes: int = 0
    dropped_parts: tuple[str, ...] = ()

    @property
    def counts(self) -> Counts:
        """Of this batch."""
        return Counts(self.events, self.rows, self.open_change)

    @property
    def totals(self) -> Counts:
        """Of the generation up to this batch."""
        return Counts(self.total_events, self.total_rows, self.open_events)

    def describe(self) -> str:
        """What came of the batch, in a line for people."""
        rows = ", ".join(f"{count:,} {name}" for name, count in self.rows.items() if count) or "no rows"
        return f"{self.events:,} events: {rows}; {self.open_events:,} open"


class ClockRecord(Record):
    """How far time has gone since the last batch, through runs in which nothing came and nothing was due.

    Such a run makes no batch; it moves the clock alone.

    Attributes:
        watermark, processing_time: reached.
        reading: what the machine's clocks said.
    """

    watermark: datetime
    processing_time: datetime
    reading: Reading
