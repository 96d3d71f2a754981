"""The contract of a keyed job: what its author writes, and what the engine promises in return.

A job is a value. Its heart is `step`, a pure function from tables to tables. The engine calls it with many keys at once: with
the events of these keys, with all rows of state of the keys that have events or a row that is due, and with the clock. Keys
are independent: which of them share a call changes no result.

What the engine promises:

- **Exactly once.** Each event reaches one successful step; a crash replays the step with the same tables and clock.
- **Two clocks.** A state row whose `deadline` (event time) the watermark has reached, or whose `stale_at` (processing
  time) the processing time has reached, is due: the step is called, with or without events, and decides what to do
  with it.
- **Nothing late is lost.** An event at or behind the late watermark goes to its key's still-open state where there is
  one and else to the table `late.<job>`. A step may send more there itself (`Step.late`); of a job whose key is never
  closed, or closes by a rule of its own, the step alone decides what is late (`step_decides_late`). Leave it to
  the engine only where a key's state is closed by event time alone: if events close it too, or processing time, an event
  that is late may meet it open or closed, as the run was cut, or as one looked.
- **No batch shows in a result.** A run takes its events in order of event time, slice by slice; what is late was late
  when the run began.
- **Order.** Events of a call come in no order; a step that needs one sorts.
- **Several inputs.** A job that `KeyedJob.with_inputs` makes reads several streams. Its step gets a frame an input, by name;
  the watermark is the least of theirs. A run takes the events of all in order of event time, whichever came first.
- **Several keys.** Of a job with `keys_of` an event is what is here called an event once for each of its keys: each copy
  reaches one step, is late or not by its own key's state, and is counted.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import polars as pl
import pyarrow as pa
from pydantic import BaseModel

from keyfold.errors import Misconfigured
from keyfold.keyed.answers import Answers, AnswersInMemory
from keyfold.keyed.copies import KeysOf
from keyfold.keyed.hashing import PartOf, check_hashable
from keyfold.keyed.job_tables import JobTable, name_of_changes, schema_of_changes
from keyfold.keyed.lookups import Lookup
from keyfold.keyed.several_inputs import EVENT_TIME, INPUT, Input, check_inputs_fit, joined_schema
from keyfold.privacy import private_columns
from keyfold.stream import Stream

DEADLINE = "deadline"
"""Reserved state column: timestamp (UTC), event time at which the row is due."""
STALE_AT = "stale_at"
"""Reserved state column: timestamp (UTC), processing time at which the row is due."""

_TABLE_NAME = re.compile(r"((late|changes)\.)?[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Clock:
    """What time it is in a step: `now()` has no place there.

    Attributes:
        late_watermark: the watermark before this batch: events at or behind it are late. The year 1 at first.
        watermark: the watermark after it: event time that has passed once the batch's events are in. What is due by
            then closes now. Never less than `late_watermark`, and never so much that an event of this run which is
            still to come would be behind it.
        processing_time: when this batch was planned; the same again when it is replayed.
        answers: where a step that asks the world outside keeps what it was told, before it uses it.
        watermarks: of a job with several inputs, how far each has come after the batch, by name; idle ones too.
        lookups: rows of the job's lookups, by name, as they were when the batch was planned.

    Example:
        >>> noon = datetime(2026, 1, 31, 12)
        >>> clock = Clock(late_watermark=noon, watermark=noon + timedelta(minutes=5), processing_time=noon)
        >>> due = pl.DataFrame({"user": ["ann", "bob"], DEADLINE: [noon, noon + timedelta(hours=1)]})
        >>> due.filter(pl.col(DEADLINE) <= clock.watermark)["user"].to_list()
        ['ann']
    """

    late_watermark: datetime
    watermark: datetime
    processing_time: datetime
    answers: Answers = field(default_factory=AnswersInMemory)
    watermarks: Mapping[str, datetime] = field(default_factory=dict)
    lookups: Mapping[str, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """What a step gives back: `state`, or what changes of it as `add` and `drop`; and rows for tables.

    Attributes:
        state: every row to keep of the keys that the step was given, in the job's state schema. Rows of theirs that are left
            out are forgotten; other keys stay as they are, and a row of one fails the run.
        output: rows for the job's own table.
        late: events that came after their key had closed, for `late.<job>`.
        side: rows for the job's side outputs, by table name.
        add: in place of `state`: rows to keep besides those that their keys have. Where keys have many rows and few are
            new, those that stay are not written again.
        drop: with `add` or alone: the keys, in the columns of the job's key, of which all rows that the step was given are
            forgotten. Rows of such a key in `add` are then all that it has.

    Example:
        >>> still_open, ended = pl.DataFrame({"user": ["ann"]}), pl.DataFrame({"user": ["bob"], "clicks": [3]})
        >>> step = Step(state=still_open, output=ended, side={"long_sessions": ended.filter(pl.col("clicks") > 9)})
        >>> step.side["long_sessions"].height
        0

        Of a million rows one is new, and all of one user's are forgotten.

        >>> step = Step(add=pl.DataFrame({"user": ["cat"]}), drop=ended.select("user"), output=ended)
    """

    state: pl.DataFrame = field(default_factory=pl.DataFrame)
    output: pl.DataFrame = field(default_factory=pl.DataFrame)
    late: pl.DataFrame | None = None
    side: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    add: pl.DataFrame | None = field(default=None, kw_only=True)
    drop: pl.DataFrame | None = field(default=None, kw_only=True)


StepFunction = Callable[[pl.DataFrame, Any, Clock], Step]
"""A job's step. Its events are a frame, or, of a job with several inputs, a frame an input."""

StepOfInputs = Callable[[pl.DataFrame, Mapping[str, pl.DataFrame], Clock], Step]
"""The step of a job with several inputs: it gets a frame of events an input, by name."""


@dataclass(frozen=True)
class OutputTable:
    """A table that a job writes: appended to, or updated in place by its key columns.

    Attributes:
        name: of the table.
        schema: its columns (`keyfold.columns`).
        mode: `append`, or `upsert` by `key`.
        key: columns of which an upsert table has one row each, never NULL; a batch writes no two rows of one key.
        events: how many events its rows stand for that no row of another table does (conservation check).
        description: what people read of it.
        changes: of an upsert table, whether the append table `changes.<name>` has what each batch made of each key, for jobs
            that read it (`JobTable.changes_of`).

    Example:
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> totals = OutputTable("totals", pa.schema([user, ("clicks", pa.int64())]), "upsert", key=("user",))
        >>> OutputTable("totals", totals.schema, "upsert")
        Traceback (most recent call last):
        keyfold.errors.Misconfigured: table totals: an upsert table needs a key and an append table has none
    """

    name: str
    schema: pa.Schema
    mode: Literal["append", "upsert"] = "append"
    key: tuple[str, ...] = ()
    events: pl.Expr = field(default_factory=lambda: pl.lit(0))
    description: str = ""
    changes: bool = False

    def __post_init__(self) -> None:
        if not _TABLE_NAME.fullmatch(self.name):
            raise Misconfigured(f"table name {self.name!r} must be lower-case letters, digits and underscores")
        if (self.mode == "upsert") != bool(self.key):
            raise Misconfigured(f"table {self.name}: an upsert table needs a key and an append table has none")
        _require_columns(f"table {self.name}: key", self.key, self.schema)
        _require_not_null(f"table {self.name}: key", self.key, self.schema)
        if self.changes and self.mode == "append":
            raise Misconfigured(f"table {self.name}: changes are of an upsert table; what is appended is read as it is")
        names = schema_of_changes(self.schema, self.key).names if self.changes else []
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Misconfigured(
                f"table {self.name}: its changes would have two columns {', '.join(twice)}; rename its own"
            )


@dataclass(frozen=True)
class KeyedJob:
    """A keyed, stateful job.

    Attributes:
        name: of the job and of its main table.
        stream: whose event table it reads.
        key: columns whose values belong together; never NULL.
        derived: columns of `events` that the event table does not have, each as an expression over those that it has.
        keys_of: a column of the key that an event may have several values of: it comes once for each (`copies`).
        event_time: the event's time, a UTC timestamp column of the event table.
        time_from: another column of the event table that gives the time: with `ingested_at` a job that is written for
            the events' own times goes by their arrival, which then is what its `event_time` holds.
        watermark_delay: how far behind the newest event time the watermark stays.
        events: columns of the event table that the step needs (and that `late.<job>` shows).
        state: rows the job keeps: any number a key, key columns among them; may have `deadline` and `stale_at`.
        output: columns of the main table.
        step: the pure function `(state, events, clock) -> Step`.
        combine: optional, associative `(events) -> events` applied to parts of a batch before the shuffle;
            late rows of such a job are combined rows. The time of a combined row is that of its newest event: an older
            one would make it late.
        event_count: how many events of the event table the rows of an `events` frame stand for; says more than their
            number only where `combine` joins some.
        step_decides_late: whether the step gets every event, however late, and itself says which are (`Step.late`).
        output_mode: `append`, or `upsert` by `output_key`.
        output_changes: of an upsert table, whether `changes.<job>` has its changes (`OutputTable.changes`).
        side_outputs: further tables, written exactly once in the same batch.
        late_description: what people read of `late.<job>`; by default that it holds events that came too late.
        idle_after: after this long without new events, runs advance event time by the time gone by, so that open
            state closes on a silent stream; None leaves event time to the events (and to `--advance-to`).
        key_groups: into how many shares keys are divided; state partitions have whole ones. Fixed at a generation's birth.
        schema_version: of the state; raise it when `state` changes its meaning.
        output_events: how many events the rows of a main output frame stand for (conservation check).
        state_events: how many events the rows of a state frame stand for and no output row does yet; of all rows it is the
            sum of what it is of any parts of them.
        one_per_key: a condition, of which rows of state a key has one at most: what state is made of outside is held to
            it. None where a key may have any number of every kind.
        parameters: the settings this job was built with; recorded with its generation.
        contents: fingerprints, by name, of what the job was built with and its parameters do not say, such as the content of
            a file that one of them names; fixed for the generation's life, so that a changed file asks for a refresh.
        free_parameters: names of those that a run may give other values than its generation was born with, since no
            state and no row depends on them.
        movable_parameters: names of those whose new value may count from here on, over state that an older one made:
            a move takes them (`keyfold state move`), where others need a refresh.
        migrations: functions from rows of state of one version to those of the next, by the version they start from.
        inputs, lookups: of a job that `with_inputs` makes, by name; empty of a job with one stream.
        private: columns of `events` that show what is private of the stream (`privacy`); no error of the job quotes
            them. Not given: it follows from the stream.

    Example:
        The last place that each user was seen at, given out when nothing was heard of the user for an hour.

        >>> time = pa.timestamp("us", tz="UTC")
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> seen = pa.schema([user, ("place", pa.string()), ("at", time)])
        >>> def last_place(state, events, clock):
        ...     known = pl.concat([state.drop(DEADLINE), events]).sort("at").unique("user", keep="last")
        ...     known = known.with_columns((pl.col("at") + timedelta(hours=1)).alias(DEADLINE))
        ...     is_over = known[DEADLINE] <= clock.watermark
        ...     return Step(state=known.filter(~is_over), output=known.filter(is_over).drop(DEADLINE))
        >>> sightings = Stream("sightings", seen, event_time="at")
        >>> job = KeyedJob(
        ...     name="last_places", stream=sightings, key=("user",), event_time="at",
        ...     watermark_delay=timedelta(minutes=5), events=seen, state=seen.append(pa.field(DEADLINE, time)),
        ...     output=seen, step=last_place,
        ... )
        >>> [table.name for table in job.tables]
        ['last_places', 'late.last_places']
    """

    name: str
    stream: Stream | JobTable
    key: tuple[str, ...]
    event_time: str
    watermark_delay: timedelta
    events: pa.Schema
    state: pa.Schema
    output: pa.Schema
    step: StepFunction
    time_from: str = ""
    derived: Mapping[str, pl.Expr | PartOf] = field(default_factory=dict)
    keys_of: KeysOf | None = None
    combine: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    event_count: pl.Expr = field(default_factory=pl.len)
    step_decides_late: bool = False
    output_mode: Literal["append", "upsert"] = "append"
    output_key: tuple[str, ...] = ()
    output_changes: bool = False
    side_outputs: tuple[OutputTable, ...] = ()
    late_description: str = ""
    idle_after: timedelta | None = None
    key_groups: int = 64
    schema_version: int = 1
    output_events: pl.Expr = field(default_factory=pl.len)
    state_events: pl.Expr = field(default_factory=pl.len)
    one_per_key: pl.Expr | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)
    free_parameters: frozenset[str] = frozenset()
    movable_parameters: frozenset[str] = frozenset()
    migrations: Mapping[int, Callable[[pl.DataFrame], pl.DataFrame]] = field(default_factory=dict)
    inputs: Mapping[str, Input] = field(default_factory=dict)
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    private: frozenset[str] = field(init=False, default=frozenset())

    @classmethod
    def with_inputs(
        cls,
        name: str,
        inputs: Mapping[str, Input | Lookup],
        key: tuple[str, ...],
        state: pa.Schema,
        output: pa.Schema,
        step: StepOfInputs,
        **settings: Any,
    ) -> "KeyedJob":
        """Make a job that reads several streams.

        Args:
            name: of the job and of its main table.
            inputs: what it reads, by name: one input at least, and any lookups.
            key: columns whose values belong together; every input has them, with the same types.
            state, output: as of every job.
            step: the pure function `(state, events, clock) -> Step`, where `events` has a frame an input, by name.
            settings: others of this class; not those that an input says itself.

        Raises:
            Misconfigured: the inputs do not fit together.

        Example:
            The payments of each card that no order was made for, once both sides have come that far.

            >>> time = pa.timestamp("us", tz="UTC")
            >>> card, at = pa.field("card", pa.string(), nullable=False), pa.field("at", time, nullable=False)
            >>> paid = pa.schema([card, at])
            >>> orders, payments = (Stream(name, paid, event_time="at") for name in ("orders", "payments"))
            >>> def unordered(state, events, clock):
            ...     ordered = events["orders"].select("card")
            ...     open_ones = pl.concat([state.drop(DEADLINE), events["payments"]]).join(ordered, on="card", how="anti")
            ...     open_ones = open_ones.with_columns(pl.col("at").alias(DEADLINE))
            ...     has_passed = pl.col(DEADLINE) <= clock.watermark
            ...     return Step(state=open_ones.filter(~has_passed), output=open_ones.filter(has_passed).drop(DEADLINE))
            >>> job = KeyedJob.with_inputs(
            ...     "unordered", {"orders": Input(orders, paid, "at", conserved=False), "payments": Input(payments, paid, "at")},
            ...     ("card",), paid.append(pa.field(DEADLINE, time)), paid, unordered,
            ... )
            >>> job.events.names
            ['input', 'card', 'event_time']
        """
        lookups = {one: declared for one, declared in inputs.items() if isinstance(declared, Lookup)}
        streams = {one: declared for one, declared in inputs.items() if isinstance(declared, Input)}
        check_inputs_fit(name, key, streams)
        taken = {"stream", "event_time", "watermark_delay", "events", "time_from", "derived", "keys_of", "combine"}
        if refused := sorted(taken.intersection(settings)):
            raise Misconfigured(f"job {name}: {', '.join(refused)} cannot be said of a job with several inputs")
        conserved = [one for one, declared in streams.items() if declared.conserved]
        settings.setdefault("event_count", pl.col(INPUT).is_in(conserved).sum().cast(pl.Int64))
        return cls(
            name=name,
            stream=next(iter(streams.values())).stream,
            key=key,
            event_time=EVENT_TIME,
            watermark_delay=timedelta(0),
            events=joined_schema(key, streams),
            state=state,
            output=output,
            step=step,
            inputs=streams,
            lookups=lookups,
            **settings,
        )

    def __post_init__(self) -> None:
        where = f"job {self.name}"
        if not isinstance(self.stream, Stream | JobTable):
            raise Misconfigured(f"{where}: stream is {self.stream!r}; it must be the Stream itself, and not its name")
        if not self.key:
            raise Misconfigured(f"{where}: key needs at least one column")
        _require_columns(f"{where}: events", (*self.key, self.event_time), self.events)
        _require_columns(f"{where}: state", self.key, self.state)
        _require_columns(f"{where}: events (derived)", tuple(self.derived), self.events)
        _require_not_null(f"{where}: key", self.key, self.events)
        # Told where the job is made, not by a worker in the middle of a run.
        check_hashable(f"{where}: key", self.key, self.events)
        if self.event_time in self.derived:
            raise Misconfigured(
                f"{where}: event_time {self.event_time} is derived; it must be a column of the event table"
            )
        if self.keys_of is not None and (self.keys_of.column not in self.key or self.keys_of.column in self.derived):
            raise Misconfigured(
                f"{where}: keys_of is of {self.keys_of.column}; it must be of a column of the key, "
                f"{', '.join(self.key)}, that is not derived"
            )
        if not 1 <= self.key_groups <= 32_768:
            raise Misconfigured(f"{where}: key_groups is {self.key_groups}; it must be 1 to 32768")
        if self.watermark_delay < timedelta(0):
            raise Misconfigured(f"{where}: watermark_delay is negative")
        _require_timestamp(f"{where}: events", self.event_time, self.events)
        for column in (DEADLINE, STALE_AT):
            if column in self.state.names:
                _require_timestamp(f"{where}: state", column, self.state)
        names = [table.name for table in self.tables]
        if len(set(names)) != len(names):
            raise Misconfigured(f"{where}: two of its tables have one name: {', '.join(names)}")
        # Known here, on the driver, and told to workers with the job.
        object.__setattr__(self, "private", self.private_of(self.events))

    @property
    def all_inputs(self) -> Mapping[str, Input]:
        """What the job reads, by name; of a job with one stream, that under the stream's name."""
        if self.inputs:
            return self.inputs
        own = Input(self.stream, self.events, self.event_time, self.watermark_delay, self.time_from, self.derived)
        return {self.stream.name: own}

    def times_counted(self, table: str) -> int:
        """How often an event of a table that it reads counts for conservation: once for each input that says so."""
        return sum(one.conserved for one in self.all_inputs.values() if one.table == table)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that it reads, each once."""
        return tuple(one for one in self._sources if isinstance(one, Stream))

    @property
    def producers(self) -> tuple[str, ...]:
        """The jobs whose tables it reads, each once."""
        return tuple(dict.fromkeys(one.job for one in self._sources if isinstance(one, JobTable)))

    @property
    def _sources(self) -> list[Stream | JobTable]:
        return list({one.table: one.stream for one in self.all_inputs.values()}.values())

    def private_of(self, schema: pa.Schema) -> frozenset[str]:
        """The columns of one of its tables, or of its state, that show what is private of a stream that it reads."""
        # Which input a row is of is Keyfold's own word.
        return private_columns(self._sources, schema) - ({INPUT} if self.inputs else set())

    @property
    def tables(self) -> tuple[OutputTable, ...]:
        """Every table the job writes: its own, its side outputs, changes of those that keep them, and the late table."""
        own = OutputTable(
            self.name, self.output, self.output_mode, self.output_key, self.output_events, changes=self.output_changes
        )
        said = self.late_description or (
            f"Events of {' and '.join(f'`{one.name}`' for one in self._sources)} that came too late for `{self.name}`; they change none of its rows."
        )
        late = OutputTable(self.late_table, self.events, events=self.event_count, description=said)
        tables = (own, *self.side_outputs)
        known = {name for one in self._sources for name in one.event_schema.names}
        changes = [
            OutputTable(
                name_of_changes(one.name),
                schema_of_changes(one.schema, one.key, known),
                description=f"What each batch of `{self.name}` made of each key of `{one.name}`.",
            )
            for one in tables
            if one.changes
        ]
        return (*tables, *changes, late)

    @property
    def stored_time(self) -> str:
        """The column of the event table with the times that the job goes by."""
        return self.time_from or self.event_time

    @property
    def copies(self) -> pl.Expr:
        """How many events the job takes rows of its event table for: their number, or that of their copies."""
        return pl.len() if self.keys_of is None else self.keys_of.count

    @property
    def made_columns(self) -> frozenset[str]:
        """Columns of `events` that the event table does not have."""
        return frozenset(self.derived) | ({self.keys_of.column} if self.keys_of is not None else set())

    @property
    def late_table(self) -> str:
        """Name of the table of events that came after their state had closed."""
        return f"late.{self.name}"


@dataclass(frozen=True)
class JobTemplate:
    """A job before it has its parameters: a typed, documented model of them, and the function that builds the job of them.

    Attributes:
        name: of the job.
        description: what people read of it.
        parameters: the model, usually a `JobParameters`.
        build: makes the job of an instance of the model.

    Example:
        >>> from keyfold import JobParameters
        >>> class Gap(JobParameters):
        ...     minutes: int = 30
        >>> template = JobTemplate("sessions", "Visits of users", Gap, lambda gap: ...)
        >>> template.parameters(minutes=5).minutes
        5
    """

    name: str
    description: str
    parameters: type[BaseModel]
    build: Callable[[Any], KeyedJob]


def _require_columns(where: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise Misconfigured(f"{where} has no column {', '.join(missing)}; it has {', '.join(schema.names)}")


def _require_not_null(where: str, columns: tuple[str, ...], schema: pa.Schema) -> None:
    nullable = [column for column in columns if schema.field(column).nullable]
    if nullable:
        raise Misconfigured(
            f"{where} column {', '.join(nullable)} may be NULL, and NULL equals nothing, not even itself: declare it with "
            "nullable=False, and see that no event lacks it"
        )


def _require_timestamp(where: str, column: str, schema: pa.Schema) -> None:
    kind = schema.field(column).type
    if kind != pa.timestamp("us", tz="UTC"):
        raise Misconfigured(f"{where}: column {column} is {kind}; it must be timestamp[us, tz=UTC]")
