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
  the engine only where a key's state is closed by event time alone: if events or processing time close it too, the result
  would depend on batch boundaries.
- **Results do not depend on batch boundaries.** A run reads its events in order of event time, in slices. Whether an event is
  late is decided by the watermark at the start of the run.
- **Order.** Events of a call come in no order; a step that needs one sorts.
- **Several inputs.** A job that `KeyedJob.with_inputs` makes reads several streams. Its step gets a frame an input, by name;
  the watermark is the least of theirs. A run takes the events of all in order of event time, whichever came first.
- **Several keys.** With `keys_of`, each event is copied once per key. Each copy reaches one step and is counted. Lateness
  is decided per copy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.job.clock import DEADLINE, STALE_AT
from keyfold.keyed.job.column_checks import require_columns, require_not_null, require_timestamp
from keyfold.keyed.job.copies import KeysOf
from keyfold.keyed.job.job_tables import JobTable, name_of_changes, schema_of_changes
from keyfold.keyed.job.lookups import Lookup
from keyfold.keyed.job.output_table import OutputTable
from keyfold.keyed.job.several_inputs import EVENT_TIME, INPUT, Input, check_inputs_fit, joined_schema
from keyfold.keyed.job.step import StepFunction, StepOfInputs
from keyfold.keyed.job.waiting import Waiting
from keyfold.keyed.rows.hashing import PartOf, check_hashable
from keyfold.privacy import private_columns
from keyfold.stream import Stream


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
        waiting: optional: which rows of state lie apart until they are needed, and which events only add to them.
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
    waiting: Waiting | None = None
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
        require_columns(f"{where}: events", (*self.key, self.event_time), self.events)
        require_columns(f"{where}: state", self.key, self.state)
        require_columns(f"{where}: events (derived)", tuple(self.derived), self.events)
        require_not_null(f"{where}: key", self.key, self.events)
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
        require_timestamp(f"{where}: events", self.event_time, self.events)
        for column in (DEADLINE, STALE_AT):
            if column in self.state.names:
                require_timestamp(f"{where}: state", column, self.state)
        if self.waiting is not None:
            require_columns(f"{where}: state (waiting)", tuple(self.waiting.rows.meta.root_names()), self.state)
            if self.inputs:
                raise Misconfigured(f"{where}: waiting is for a job with one input")
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
