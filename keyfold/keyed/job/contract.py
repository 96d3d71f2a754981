"""The contract of a keyed job: what its author declares, and what the engine guarantees.

A job is a value. Its core is `step`, a pure function from tables to tables. The engine calls it with many keys at once: with
their events, with all rows of their state, and with the clock. Only keys with events or a due timer are passed. Keys are
independent: results do not depend on which keys share a call.

The engine guarantees:

- **Exactly once.** Each event reaches one successful step. After a crash, the step is called again with the same tables and
  clock.
- **Two clocks.** A row of state is due when the watermark has reached its `deadline` (event time), or when processing time has
  reached its `processing_deadline`. Then the step is called, with or without events, and decides what to do.
- **No late event is lost.** An event at or behind the previous watermark goes to its key's state if there is any, or else to the
  table `late.<job>`. A step may send more events there (`Step.late`). With `step_decides_late`, the step alone decides which
  events are late. Set it unless only event time closes a key's state: if events or processing time close it too, the engine's
  decision would depend on batch boundaries.
- **Results do not depend on batch boundaries.** A run reads its events in order of event time, in slices. Whether an event is
  late is decided by the watermark at the start of the run.
- **Order.** Events of a call are in no order; a step that needs one sorts them.
- **Several inputs.** A job made by `KeyedJob.with_inputs` reads several streams. Its step gets a frame for each input, by name.
  The watermark is the minimum of the inputs' watermarks. A run reads the events of all inputs in order of event time.
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
from keyfold.keyed.job.event_frames import KeysOf, joined_schema
from keyfold.keyed.job.inputs import EVENT_TIME, INPUT, Input, JobTable, check_inputs_fit
from keyfold.keyed.job.lookups import Lookup
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, StepFunction, StepOfInputs, Waiting
from keyfold.keyed.job.tables import (
    OutputTable,
    changes_of,
    name_of_changes,
    require_columns,
    require_timestamp,
)
from keyfold.keyed.rows.hashing import PartOf, check_hashable
from keyfold.privacy import private_columns
from keyfold.stream import Stream


@dataclass(frozen=True)
class KeyedJob:
    """A keyed, stateful job.

    Attributes:
        name: name of the job and of its main table.
        stream: the stream whose event table it reads.
        key: columns of the key; never NULL.
        derived: columns of `events` that are not in the event table, as expressions over its columns.
        keys_of: a column of the key of which an event may have several values; the event is copied for each (`copies`).
        where: condition on the columns of the event table (`Input.where`). Workers leave out rows for which it is not true
            when they read, so the job gets no events from them.
        event_time: the column of the event table with the event's time, a UTC timestamp.
        time_from: another column of the event table whose values replace those of `event_time`. With `ingested_at`, a job
            goes by the arrival of its events.
        watermark_delay: how far behind the newest event time the watermark stays.
        events: columns of the event table that the step needs; also the columns of `late.<job>`.
        state: columns of state, with those of the key. A key may have any number of rows. `deadline` and `processing_deadline` are
            timers.
        output: columns of the main table.
        step: the pure function `(state, events, clock) -> Step`.
        combine: optional associative function `(events) -> events`, applied to parts of a batch before the shuffle. The
            late table then has combined rows. A combined row must have the time of its newest event: an older time could
            make it late.
        event_count: expression for the number of events in an `events` frame; differs from the number of rows if `combine`
            combines events.
        waiting: optional: rows of state that are stored apart until they are needed, and events that only add to them.
        step_decides_late: whether the step gets all events, however late, and decides which are late (`Step.late`).
        output_mode: `append`, or `upsert` by `output_key`.
        output_changes: whether an upsert table has its changes in `changes.<job>` (`OutputTable.changes`).
        side_outputs: further tables, written exactly once in the same batch.
        late_description: description of `late.<job>`.
        idle_after: after this long without new events, runs advance event time by the time that has passed, so that open
            state closes on a silent stream. None leaves event time to the events and to `--advance-to`.
        key_groups: number of key groups; a state partition has whole ones. Fixed for a generation.
        schema_version: version of the state; raise it when the meaning of `state` changes.
        output_events: expression for the number of events in rows of the main output (conservation check).
        state_events: expression for the number of events in rows of state that are in no output row yet. It must be
            additive: its value for all rows is the sum of its values for parts of them.
        one_per_key: condition on rows of state, of which a key may have one only; checked for state that is made from a
            table. None if a key may have several rows of any kind.
        parameters: the parameters that the job was built with; recorded with its generation.
        contents: fingerprints, by name, of inputs of the job that are not parameters, such as the content of a file that a
            parameter names. Fixed for a generation, so that a changed file requires a refresh.
        free_parameters: names of parameters that each run may set, since no state and no row depends on them.
        movable_parameters: names of parameters whose new value may apply to existing state: a move accepts them
            (`keyfold state move`), and others need a refresh.
        migrations: functions that migrate rows of state from one version to the next, by the version they start from.
        inputs, lookups: by name, for a job made by `with_inputs`; empty for a job with one stream.
        private: columns of `events` with private values (`privacy`), which no error of the job quotes. Computed from the
            stream.

    Example:
        The last place of each user, written after an hour without events of the user.

        >>> from keyfold.keyed.job import DEADLINE
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
    where: pl.Expr | None = None
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
            name: name of the job and of its main table.
            inputs: inputs and lookups by name; at least one input.
            key: columns of the key; every input has them, with the same types.
            state, output: as in the class.
            step: the pure function `(state, events, clock) -> Step`, where `events` has a frame for each input, by name.
            settings: other attributes of the class, except those that an input has.

        Raises:
            Misconfigured: the inputs do not fit together.

        Example:
            Payments without an order of the same card, written when the watermark has reached them.

            >>> from keyfold.keyed.job import DEADLINE
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
            ...     "unordered",
            ...     {"orders": Input(orders, paid, "at", conserved=False), "payments": Input(payments, paid, "at")},
            ...     ("card",), paid.append(pa.field(DEADLINE, time)), paid, unordered,
            ... )
            >>> job.events.names
            ['input', 'card', 'event_time']
        """
        lookups = {one: declared for one, declared in inputs.items() if isinstance(declared, Lookup)}
        streams = {one: declared for one, declared in inputs.items() if isinstance(declared, Input)}
        check_inputs_fit(name, key, streams)
        taken = {
            "stream",
            "event_time",
            "watermark_delay",
            "events",
            "time_from",
            "derived",
            "keys_of",
            "where",
            "combine",
        }
        if refused := sorted(taken.intersection(settings)):
            raise Misconfigured(f"job {name}: {', '.join(refused)} cannot be set for a job with several inputs")
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
        self._check()
        # Computed on the driver; workers get it with the job.
        object.__setattr__(self, "private", self.private_of(self.events) | self._private_in_conditions)

    @property
    def all_inputs(self) -> Mapping[str, Input]:
        """The inputs by name; the only input of a job with one stream has the stream's name."""
        if self.inputs:
            return self.inputs
        own = Input(
            self.stream,
            self.events,
            self.event_time,
            self.watermark_delay,
            self.time_from,
            self.derived,
            where=self.where,
        )
        return {self.stream.name: own}

    def counted_in(self, table: str) -> pl.Expr:
        """Return the number of events in rows of an input table that conservation counts: those of each conserved input."""
        counts = [self.taken(one) for one in self.all_inputs.values() if one.table == table and one.conserved]
        return pl.sum_horizontal(pl.lit(0, pl.Int64), *counts)

    def taken(self, one: Input) -> pl.Expr:
        """Return the number of events in rows of an input's table: rows that fulfil its condition, once per key."""
        if self.keys_of is not None:
            return self.keys_of.number.filter(one.is_wanted).sum()
        return pl.len() if one.where is None else one.is_wanted.sum().cast(pl.Int64)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that it reads, each once."""
        return tuple(one for one in self.sources if isinstance(one, Stream))

    @property
    def producers(self) -> tuple[str, ...]:
        """The jobs whose tables it reads, each once."""
        return tuple(dict.fromkeys(one.job for one in self.sources if isinstance(one, JobTable)))

    @property
    def sources(self) -> list[Stream | JobTable]:
        """The tables that it reads, each once."""
        return list({one.table: one.stream for one in self.all_inputs.values()}.values())

    def private_of(self, schema: pa.Schema) -> frozenset[str]:
        """Return the private columns of one of its tables, or of its state."""
        # `input` has no declaration, and is not private: its values are names of inputs.
        return private_columns(self.sources, schema) - ({INPUT} if self.inputs else set())

    @property
    def _private_in_conditions(self) -> frozenset[str]:
        conditions = [(one.where, one.stream) for one in self.all_inputs.values() if one.where is not None]
        return frozenset(name for where, of in conditions for name in where.meta.root_names() if name in of.private)

    @property
    def tables(self) -> tuple[OutputTable, ...]:
        """All tables that the job writes: main table, side outputs, changes of upsert tables, and the late table."""
        own = OutputTable(
            self.name, self.output, self.output_mode, self.output_key, self.output_events, changes=self.output_changes
        )
        sources = " and ".join(f"`{one.name}`" for one in self.sources)
        description = self.late_description or (
            f"Events of {sources} that came too late for `{self.name}`; they change none of its rows."
        )
        late = OutputTable(self.late_table, self.events, events=self.event_count, description=description)
        known = {name for one in self.sources for name in one.event_schema.names}
        written = (own, *self.side_outputs)
        return (*written, *(changes_of(one, self.name, known) for one in written if one.changes), late)

    def table(self, name: str = "") -> JobTable:
        """Return a table of the job as an input of another job (`Input`); its main table by default.

        Raises:
            Misconfigured: the job has no such table, or it is updated in place.

        Example:
            >>> from keyfold import build_job
            >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
            >>> build_job(RIDE_SUMMARIES).table("long_rides").name
            'long_rides'
        """
        tables = {one.name: one for one in self.tables}
        chosen = tables.get(name or self.name)
        if chosen is None:
            raise Misconfigured(f"job {self.name} has no table {name}; it has {', '.join(tables)}")
        if chosen.mode != "append":
            raise Misconfigured(
                f"table {chosen.name} of job {self.name} is updated in place, and an input is read by what is added to it; "
                "read its changes (`KeyedJob.changes`), or an append table of the job"
            )
        are_changes = chosen.name in {name_of_changes(one.name) for one in self.tables if one.changes}
        private = tuple(sorted(self.private_of(chosen.schema)))
        return JobTable(self.name, chosen.name, chosen.schema, private, are_changes)

    def changes(self, name: str = "") -> JobTable:
        """Return the changes of an upsert table of the job, by default of its main table: one row per key and batch.

        A row has the upsert table's columns after the change, `<column>_before` for each column that is not in the key,
        `is_new` (the key had no row), `changed_at` (the watermark of the batch: the input's event time) and `change` (the
        number of the batch). The last change of a key has the greatest `change`.

        Raises:
            Misconfigured: the job has no such table, it is no upsert table, or it does not keep its changes.

        Example:
            >>> time, user = pa.timestamp("us", "UTC"), pa.field("user", pa.string(), nullable=False)
            >>> click, total = pa.schema([user, ("at", time)]), pa.schema([user, ("clicks", pa.int64())])
            >>> job = KeyedJob(
            ...     "totals", Stream("clicks", click, "at"), ("user",), "at", timedelta(0), click, total, total,
            ...     lambda state, events, clock: Step(), output_mode="upsert", output_key=("user",), output_changes=True,
            ... )
            >>> job.changes().name
            'changes.totals'
        """
        chosen = {one.name: one for one in self.tables}.get(name or self.name)
        if chosen is None or not chosen.changes:
            what = "has no such table" if chosen is None else "keeps no changes of it"
            raise Misconfigured(
                f"job {self.name} {what}: {name or self.name}; declare an upsert table with `OutputTable(changes=True)`, or the "
                "job's own with `output_changes=True`"
            )
        return self.table(name_of_changes(chosen.name))

    @property
    def stored_time(self) -> str:
        """The column of the event table with the times that the job goes by."""
        return self.time_from or self.event_time

    @property
    def copies(self) -> pl.Expr:
        """Return the number of events in rows of the event table of a job with one stream (`taken`)."""
        return self.taken(self.all_inputs[self.stream.name])

    @property
    def late_table(self) -> str:
        """Name of the table of late events."""
        return f"late.{self.name}"

    def _check(self) -> None:
        where = f"job {self.name}"
        if not isinstance(self.stream, Stream | JobTable):
            raise Misconfigured(f"{where}: stream is {self.stream!r}; it must be the Stream itself, and not its name")
        if not self.key:
            raise Misconfigured(f"{where}: key needs at least one column")
        if not self.inputs:
            check_inputs_fit(self.name, self.key, self.all_inputs)
        require_columns(f"{where}: state", self.key, self.state)
        # When the job is made, and not by a worker during a run.
        check_hashable(f"{where}: key", self.key, self.events)
        several = self.keys_of
        if several is not None and (several.column not in self.key or several.column in self.derived):
            raise Misconfigured(
                f"{where}: keys_of is of {several.column}; it must be of a column of the key, "
                f"{', '.join(self.key)}, that is not derived"
            )
        if not 1 <= self.key_groups <= 32_768:
            raise Misconfigured(f"{where}: key_groups is {self.key_groups}; it must be 1 to 32768")
        for column in (DEADLINE, PROCESSING_DEADLINE):
            if column in self.state.names:
                require_timestamp(f"{where}: state", column, self.state)
        if self.waiting is not None:
            require_columns(f"{where}: state (waiting)", tuple(self.waiting.rows.meta.root_names()), self.state)
            if self.inputs:
                raise Misconfigured(f"{where}: waiting is for a job with one input")
        names = [table.name for table in self.tables]
        if len(set(names)) != len(names):
            raise Misconfigured(f"{where}: two of its tables have one name: {', '.join(names)}")
