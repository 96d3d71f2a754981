"""The contract of a keyed job: what its author declares, and what the engine guarantees.

A job is a value. Its core is `step`, a pure function from tables to tables. The engine calls it with many keys at once: with
their events, with all rows of their state, and with the clock. Only keys with events or a due timer are passed. Keys are
independent: results do not depend on which keys share a call.

The engine guarantees:

- **Exactly once.** Each event reaches one successful step. After a crash, the step is called again with the same tables and
  clock.
- **Two clocks.** A row of state is due when the watermark has reached its `deadline` (event time), or when processing time has
  reached its `processing_deadline`. Then the step is called, without events, and decides what to do.
- **In order.** A key's events up to its deadline, then the deadline, then the events after it, as if each event had come in a
  run of its own (`keyed.calling.phases`).
- **No late event is lost.** An event is late when its result was final at the previous watermark (`Input.final_at`), and goes to
  the table `late.<job>`. With `STEP_DECIDES`, the step gets all events and returns the late ones (`Step.late`): where other
  events, or processing time, make a result final.
- **Results do not depend on batch boundaries.** A run reads its events in order of event time, in slices. Whether an event is
  late is decided by the watermark at the start of the run.
- **Order.** Events of a call are in no order; a step that needs one sorts them.
- **Several inputs.** Their step gets a frame for each input, by name; the step of one input without lookups gets its frame. The
  watermark is the minimum of the inputs' watermarks. A run reads the events of all inputs in order of event time.
- **Several keys.** With `explode`, each event is copied once per key. Each copy reaches one step and is counted.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from keyfold.columns import passed_on
from keyfold.errors import Misconfigured
from keyfold.keyed.job.checks import check_inputs, check_job
from keyfold.keyed.job.event_frames import joined_schema
from keyfold.keyed.job.inputs import EVENT_TIME, INPUT, Input, Source, as_input
from keyfold.keyed.job.lookups import Lookup
from keyfold.keyed.job.operator_call import OperatorCall
from keyfold.keyed.job.parameters import OF_THE_ENGINE, JobParameters, changed_by
from keyfold.keyed.job.row_times import RowTimes
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import BoundStep, StepFunction
from keyfold.keyed.job.tables import OutputTable, changes_of, name_of_changes
from keyfold.privacy import private_columns
from keyfold.schemas import Columns, check_name, names_of, require
from keyfold.stream import JobTable, Stream

_KEY_GROUPS = 64


@dataclass(frozen=True, init=False)
class KeyedJob:
    """A keyed, stateful job.

    Args:
        name: name of the job and of its main table.
        inputs: the input; or several inputs and lookups by name. A stream stands for its `Input`.
        key: column of the key, or several; never NULL. Every input has them, with the same types.
        state: columns of state, or `State`. The key's columns are added to a dict that lacks them.
        step: the pure function `(state, events, clock) -> Step`, or `per_key(handler)`.
        tables: the main table, `Append` or `Upsert`; or a sequence of the main table and others, which are written exactly
            once in the same batch.
        parameters: the parameters that the job was built with (`with_parameters`), which are recorded with its generation.
            Its inputs take `delay`, `idle_timeout` and `time` from them, and the job `key_groups`.
        key_groups: number of key groups; a state partition has whole ones. Fixed for a generation. By default that of the
            parameters, or 64.
        contents: fingerprints, by name, of inputs of the job that are not parameters, such as the content of a file that a
            parameter names. Fixed for a generation, so that a changed file requires a refresh.
        description: one line that says what a row of the main table is.
        row_times: to which time its rows belong, if they depend on the events around it alone; a span of them can be computed
            again then (`keyfold reprocess`).

    Raises:
        Misconfigured: a column, a type or a name does not fit; names the job, the field, and what is there.

    Example:
        The clicks of each user and hour, written when the watermark has reached the end of the hour.

        >>> from datetime import timedelta
        >>> from keyfold import Append, Input, KeyedJob, Step, Stream
        >>> from keyfold import DEADLINE, required
        >>> time = pa.timestamp("us", tz="UTC")
        >>> clicks = Stream("clicks", pa.schema([required("user", pa.string(), "Who"), ("at", time)]), event_time="at")
        >>> def count(state, events, clock):
        ...     came = events.with_columns(clicks=pl.lit(1, pl.Int64), deadline=pl.col("hour") + timedelta(hours=1))
        ...     hours = pl.concat([state, came.select(state.columns)]).group_by("user", "hour", "deadline").agg(
        ...         pl.col("clicks").sum())
        ...     is_over = pl.col(DEADLINE) <= clock.watermark
        ...     return Step(state=hours.filter(~is_over), output=hours.filter(is_over).drop(DEADLINE))
        >>> hourly = {"user": pl.String, "hour": time, "clicks": pl.Int64}
        >>> job = KeyedJob(
        ...     "clicks_per_hour",
        ...     Input(clicks.derive(hour=pl.col("at").dt.truncate("1h")), delay="5m",
        ...           final_at=pl.col("hour") + timedelta(hours=1)),
        ...     key="user",
        ...     state=State({**hourly, DEADLINE: time}, events=pl.col("clicks").sum()),
        ...     step=count,
        ...     tables=Append(hourly, events=pl.col("clicks").sum()),
        ... )
        >>> [table.name for table in job.tables]
        ['clicks_per_hour', 'late.clicks_per_hour']
    """

    name: str
    inputs: Mapping[str, Input]
    key: tuple[str, ...]
    state: State
    step: StepFunction | BoundStep
    tables: tuple[OutputTable, ...]
    parameters: Mapping[str, Any]
    key_groups: int
    contents: Mapping[str, str]
    description: str
    row_times: RowTimes | None
    lookups: Mapping[str, Lookup]
    model: type[BaseModel] | None = field(repr=False)
    build: Callable[[Any], "KeyedJob"] | None = field(repr=False, compare=False)
    operator: OperatorCall | None = field(repr=False, compare=False)
    columns: pa.Schema = field(init=False, repr=False, compare=False)
    private: frozenset[str] = field(init=False, repr=False, compare=False)
    function: StepFunction = field(init=False, repr=False, compare=False)
    declared_key_groups: int | None = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        name: str,
        inputs: Source | Mapping[str, Source | Lookup],
        key: str | Sequence[str],
        state: State | Columns,
        step: StepFunction | BoundStep,
        tables: OutputTable | Sequence[OutputTable],
        *,
        parameters: BaseModel | Mapping[str, Any] | None = None,
        key_groups: int | None = None,
        contents: Mapping[str, str] | None = None,
        description: str = "",
        row_times: RowTimes | None = None,
        lookups: Mapping[str, Lookup] | None = None,
        model: type[BaseModel] | None = None,
        build: Callable[[Any], "KeyedJob"] | None = None,
        operator: OperatorCall | None = None,
    ) -> None:
        of_inputs: Mapping[str, Any] = {}
        self._set(declared_key_groups=key_groups)
        # A copy (`dataclasses.replace`) with another step or input is not what the operator was called for.
        if operator is not None and not operator.made(inputs, key, state, step, tables):
            operator = None
        if isinstance(parameters, JobParameters):
            if key_groups is not None and "key_groups" not in parameters.model_fields_set:
                parameters = parameters.model_copy(update={"key_groups": key_groups})
            of_inputs, key_groups = parameters.of_inputs, parameters.key_groups
        if isinstance(parameters, BaseModel):
            model, parameters = type(parameters), parameters.model_dump(mode="json")
        check_name(f"job {name}", name)
        named = inputs if isinstance(inputs, Mapping) else {as_input(inputs).stream.name: inputs}
        of_key = names_of(key)
        self._set(
            name=name,
            inputs={
                name: as_input(source).with_defaults(**of_inputs)
                for name, source in named.items()
                if not isinstance(source, Lookup)
            },
            lookups={
                **(lookups or {}),
                **{name: lookup for name, lookup in named.items() if isinstance(lookup, Lookup)},
            },
            key=of_key,
            parameters=dict(parameters or {}),
            key_groups=_KEY_GROUPS if key_groups is None else key_groups,
            contents=dict(contents or {}),
            description=description,
            model=model,
            build=build,
        )
        if not callable(step) and not hasattr(step, "bound"):
            raise Misconfigured(f"job {name}: step is {step!r}; it must be a function (state, events, clock) -> Step")
        check_inputs(name, of_key, self.inputs)
        self._set(columns=joined_schema(of_key, self.inputs))
        key_fields = [self.columns.field(column) for column in of_key]
        self._set(state=(state if isinstance(state, State) else State(state)).with_key(f"job {name}", key_fields))
        self._set(tables=self._all_tables([tables] if isinstance(tables, OutputTable) else tables))
        if row_times is not None and row_times.of_late is None:
            row_times = replace(row_times, of_late=pl.col(self.event_time))
        self._set(row_times=row_times)
        # Computed on the driver; workers get it with the job.
        # The step gets the columns of lookups too, and an error of it may quote them.
        of_lookups = {name for lookup in self.lookups.values() for name in lookup.private}
        self._set(private=self.private_of(self.columns) | self._private_in_conditions | of_lookups)
        self._set(step=step, function=step.bound(self) if isinstance(step, BoundStep) else step)
        check_job(self)
        self._set(operator=operator and replace(operator, parts=self._parts))

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.inputs, self.key, self.state, self.step, self.tables

    def made_by(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> "KeyedJob":
        """Return the job as one that an operator has made of arguments."""
        job = copy(self)
        job._set(operator=OperatorCall(function, arguments, self._parts))
        return job

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def only_input(self) -> Input:
        """The input of a job that has one."""
        (input_,) = self.inputs.values()
        return input_

    @property
    def event_time(self) -> str:
        """The column of `columns` with the event time: the input's own, or `event_time` for several inputs."""
        return EVENT_TIME if len(self.inputs) > 1 else self.only_input.event_time

    @property
    def events(self) -> pl.Expr:
        """The number of events that rows of `columns` stand for, of conserved inputs."""
        if len(self.inputs) == 1:
            return self.only_input.events if self.only_input.conserved else pl.lit(0)
        conserved = [name for name, input_ in self.inputs.items() if input_.conserved]
        return pl.col(INPUT).is_in(conserved).sum().cast(pl.Int64)

    @property
    def counts_inputs(self) -> bool:
        """Whether the events of each input are counted apart: of several, or of one that conservation does not count."""
        return len(self.inputs) > 1 or not self.only_input.conserved

    @property
    def idle_timeout(self) -> timedelta | None:
        """How long all inputs are silent until event time advances by the time that has passed; None for never."""
        timeouts = [input_.idle_timeout for input_ in self.inputs.values()]
        declared = [timeout for timeout in timeouts if timeout is not None]
        return max(declared) if len(declared) == len(timeouts) else None

    def counted_in(self, table: str) -> pl.Expr:
        """Return the number of events in rows of an input table that conservation counts: those of each conserved input."""
        counts = [input_.taken for input_ in self.inputs.values() if input_.table == table and input_.conserved]
        return pl.sum_horizontal(pl.lit(0, pl.Int64), *counts)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that it reads, each once."""
        return tuple(source for source in self.sources if isinstance(source, Stream))

    @property
    def producers(self) -> tuple[str, ...]:
        """The jobs whose tables it reads, each once."""
        return tuple(dict.fromkeys(source.job for source in self.sources if isinstance(source, JobTable)))

    @property
    def sources(self) -> list[Stream | JobTable]:
        """The tables that it reads, each once."""
        return list({input_.table: input_.stream for input_ in self.inputs.values()}.values())

    def private_of(self, schema: pa.Schema) -> frozenset[str]:
        """Return the private columns of one of its tables, or of its state."""
        # `input` has no declaration, and is not private: its values are names of inputs.
        return private_columns([*self.sources, *self.lookups.values()], schema) - (
            {INPUT} if len(self.inputs) > 1 else set()
        )

    @property
    def _private_in_conditions(self) -> frozenset[str]:
        conditions = [
            (input_.condition, input_.stream) for input_ in self.inputs.values() if input_.condition is not None
        ]
        return frozenset(
            name for condition, of in conditions for name in condition.meta.root_names() if name in of.private
        )

    @property
    def parameter_fields(self) -> Mapping[str, FieldInfo]:
        """The declarations of its parameters, by name."""
        return self.model.model_fields if self.model else {}

    @property
    def free_parameters(self) -> frozenset[str]:
        """The parameters that each run may set (`parameter`)."""
        return changed_by(self.parameter_fields, "free")

    @property
    def movable_parameters(self) -> frozenset[str]:
        """The parameters whose new value may apply to existing state (`parameter`)."""
        return changed_by(self.parameter_fields, "migrate") | (OF_THE_ENGINE & self.parameter_fields.keys())

    @property
    def own_tables(self) -> tuple[OutputTable, ...]:
        """The tables that its step writes, by `Step.output` and `Step.side`; the main table is the first."""
        return tuple(table for table in self.tables if table.role == "own")

    @property
    def main(self) -> OutputTable:
        """The main table, which has the job's name."""
        return self.tables[0]

    def _all_tables(self, as_given: Sequence[OutputTable]) -> tuple[OutputTable, ...]:
        """Return the declared tables, the changes of upsert tables, and the late table."""
        # A copy of a job (`dataclasses.replace`) is made with all of its tables.
        for table in as_given:
            require(f"job {self.name}: a table", table, OutputTable, "Append(…) or Upsert(…)")
        declared = [table for table in as_given if table.role == "own"]
        if not declared:
            raise Misconfigured(f"job {self.name}: tables is empty; give its main table, Append(...) or Upsert(...)")
        own = [declared[0].named(self.name), *(table.named(table.name or self.name) for table in declared[1:])]
        event_columns = {name for source in self.sources for name in source.event_schema.names}
        sources = " and ".join(f"`{source.name}`" for source in self.sources)
        late = OutputTable(
            self.columns,
            self.late_table,
            events=self.events,
            description=f"Events of {sources} that came too late for `{self.name}`; they change none of its rows.",
            role="late",
        )
        tables = (*own, *(changes_of(table, self.name, event_columns) for table in own if table.changes), late)
        names = [table.name for table in tables]
        if len(set(names)) != len(names):
            raise Misconfigured(f"job {self.name}: two of its tables have one name: {', '.join(names)}")
        return tables

    def table(self, name: str = "") -> JobTable:
        """Return a table of the job as an input of another job (`Input`); its main table by default.

        Raises:
            Misconfigured: the job has no such table, or it is updated in place.

        Example:
            >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
            >>> RIDE_SUMMARIES.table("long_rides").name
            'long_rides'
        """
        tables = {table.name: table for table in self.tables}
        chosen = tables.get(name or self.name)
        if chosen is None:
            raise Misconfigured(f"job {self.name} has no table {name}; it has {', '.join(tables)}")
        if chosen.mode != "append":
            raise Misconfigured(
                f"table {chosen.name} of job {self.name} is updated in place, and an input is read by what is added to it; "
                "read its changes (`KeyedJob.changes`), or an append table of the job"
            )
        are_changes = chosen.name in {name_of_changes(table.name) for table in self.tables if table.changes}
        private = tuple(sorted(self.private_of(chosen.schema)))
        # To a job that reads them, they come from this table, whatever they come from here.
        return JobTable(self.name, chosen.name, pa.schema(passed_on(chosen.schema)), private, are_changes)

    def changes(self, name: str = "") -> JobTable:
        """Return the changes of an upsert table of the job, by default of its main table: one row per key and batch.

        A row has the upsert table's columns after the change, `<column>_before` for each column that is not in the key,
        `is_new` (the key had no row), `changed_at` (the watermark of the batch: the input's event time) and `change` (the
        number of the batch). The last change of a key has the greatest `change`.

        Raises:
            Misconfigured: the job has no such table, it is no upsert table, or it does not keep its changes.

        Example:
            >>> from keyfold import Step, Upsert
            >>> time, user = pa.timestamp("us", "UTC"), pa.field("user", pa.string(), nullable=False)
            >>> click, total = pa.schema([user, ("at", time)]), pa.schema([user, ("clicks", pa.int64())])
            >>> job = KeyedJob(
            ...     "totals", Input(Stream("clicks", click, "at"), final_at="at"), "user", total,
            ...     lambda state, events, clock: Step(), Upsert(total, "user", changes=True),
            ... )
            >>> job.changes().name
            'changes.totals'
        """
        chosen = {table.name: table for table in self.tables}.get(name or self.name)
        if chosen is None or not chosen.changes:
            reason = "has no such table" if chosen is None else "keeps no changes of it"
            raise Misconfigured(
                f"job {self.name} {reason}: {name or self.name}; declare it with `Upsert(…, changes=True)`"
            )
        return self.table(name_of_changes(chosen.name))

    @property
    def late_table(self) -> str:
        """Name of the table of late events."""
        return f"late.{self.name}"
