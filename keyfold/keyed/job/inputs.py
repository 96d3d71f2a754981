"""Declare the inputs of a job: event tables of streams, and tables of other jobs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, cast

import polars as pl
import pyarrow as pa
from pydantic import model_validator
from pydantic_core import ArgsKwargs

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.schemas import Columns, arrow_type, field_of, to_names, to_schema, type_of
from keyfold.stream import INGESTED_AT, JobTable, Stream
from keyfold.stream.refined import (
    Derived,
    Explosion,
    Refined,
    as_refined,
    expression_of,
    is_column,
    roots_of,
)
from keyfold.times import to_duration, to_silence
from keyfold.validation import argument, declaration, optional

INPUT = "input"
"""Reserved column of events of several inputs, and of their late table: the name of the row's input."""
EVENT_TIME = "event_time"
"""Reserved column of events of several inputs, and of their late table: the event time of the row."""

STEP_DECIDES = pl.lit(None, pl.Datetime("us", "UTC"))
"""The value of `Input.final_at` of a job whose step gets all events, however late, and returns the late ones (`Step.late`)."""


def _to_columns(value: Columns | Sequence[str]) -> pa.Schema | tuple[str, ...]:
    if isinstance(value, Sequence) and all(isinstance(name, str) for name in value):
        return to_names(cast(Sequence[str], value))
    return to_schema(cast(Columns, value))


def _to_source(value: Stream | JobTable | Refined) -> Stream | JobTable | Refined:
    read: Any = value.source if isinstance(value, Refined) else value
    if not isinstance(read, Stream | JobTable):
        name = f"the job {read.name}" if hasattr(read, "tables") else repr(read)
        raise Misconfigured(
            f"an input is of {name}; give the Stream itself, or a table of a job (`job.table()`), and not its name"
        )
    return value


@declaration(lambda arguments: f"input {as_refined(arguments['source']).source.name}")
class Input:
    """An input of a job: a stream's event table, or a table of another job, and how the job reads it.

    Attributes:
        source: the stream whose event table is read, or a table of a job (`JobTable`); as it is, or refined by `where`,
            `derive` and `explode`.
        at: the column of the table with the event's time, a UTC timestamp, also by another name that `derive` gives it; by
            default the stream's event time.
        delay: how far the input's watermark stays behind its newest event time, or behind the watermark of the job that
            writes the table, as text (`"10m"`) or `timedelta`; by default the job's parameter `delay`, or none. For
            changes of an upsert table it is at least a microsecond.
        final_at: when the result of an event is final, an expression over `columns` or the name of one. An event whose
            result was final at the previous watermark is late: it goes to `late.<job>`. Or `STEP_DECIDES`. There is no
            default; operators set it themselves.
        columns: columns that the step gets, also of `late.<job>`: names, or declarations; by default all of the table
            and those that are derived or exploded.
        idle_timeout: after this long without new events the input is idle: it no longer holds back the job's watermark, and
            its later events may be late. When all inputs are idle, event time advances by the time that has passed, so that
            open state closes on a silent stream. None waits without limit; the job's parameter `idle_timeout` is the default.
        conserved: whether conservation counts its events in outputs and state. False for versions that replace each other,
            and for events that may end without a row, such as those without a match.
        combine: optional associative function `(events) -> events`, applied to parts of a batch before the shuffle. The
            late table then has combined rows. A combined row must have the time of its newest event: an older time could
            make it late.
        events: expression for the number of events that rows stand for; it differs from the number of rows if `combine`
            combines events.
        time_from: another column of the table whose values replace those of `at`. With `ingested_at`, the input goes by
            arrival (the parameter `time`).
        computed: columns that an operator computes for itself, of what is stored, derived and exploded.

    Example:
        >>> time = pa.timestamp("us", tz="UTC")
        >>> orders = Stream("orders", pa.schema([("card", pa.string()), ("at", time), ("paid", pa.int64())]), event_time="at")
        >>> Input(orders, delay="5m", final_at="at", columns=("card", "at")).schema.names
        ['card', 'at']
    """

    source: Stream | JobTable | Refined = argument(converter=_to_source)
    at: str = ""
    _: KW_ONLY
    delay: timedelta | None = argument(converter=optional(to_duration), default=None)
    final_at: pl.Expr | str | None = argument(default=None, fits="a column's name, an expression, or STEP_DECIDES")
    columns: pa.Schema | tuple[str, ...] | None = argument(converter=optional(_to_columns), default=None)
    idle_timeout: timedelta | None = argument(converter=optional(to_silence), default=None)
    conserved: bool = True
    combine: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    events: pl.Expr = field(default_factory=pl.len)
    time_from: str = ""
    computed: Mapping[str, pl.Expr] = field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_time_by_another_name(cls, arguments: ArgsKwargs) -> ArgsKwargs:
        """Read the time of a derived column where it is stored: two inputs may have theirs by one name."""
        named = dict(arguments.kwargs or {})
        source, at = named.get("source"), named.get("at", "")
        if isinstance(source, Refined) and is_column(renamed := source.derived.get(at)):
            others = {name: value for name, value in source.derived.items() if name != at}
            named["source"] = replace(source, derived=others)
            named["time_from"] = named.get("time_from") or renamed.meta.output_name()
        return ArgsKwargs((), named)

    @cached_property
    def refined(self) -> Refined:
        """The source, and how it is refined."""
        return as_refined(self.source)

    @property
    def stream(self) -> Stream | JobTable:
        """The stream, or the table of a job, that is read."""
        return cast(Stream | JobTable, self.refined.source)

    @property
    def condition(self) -> pl.Expr | None:
        """Which rows of the table are events of the input; None for all."""
        return self.refined.condition

    @property
    def derived(self) -> Mapping[str, Derived]:
        """Columns that are computed from those of the table, by name."""
        return self.refined.derived

    @property
    def exploded(self) -> Explosion | None:
        """The column of the key of which an event may have several values."""
        return self.refined.exploded

    def with_computed(self, columns: Mapping[str, pl.Expr]) -> "Input":
        """Return the input with further columns, which are computed of those of the refined stream."""
        return replace(self, computed={**self.computed, **columns})

    @property
    def roots(self) -> set[str]:
        """The columns of the table that others are computed of."""
        derived, computed = (
            {root for value in columns.values() for root in roots_of(value)}
            for columns in (self.derived, self.computed)
        )
        of_lists = set() if self.exploded is None else set(self.exploded.values.meta.root_names())
        return derived | of_lists | computed.difference(self.refined.new_columns)

    @property
    def event_time(self) -> str:
        """The column of the table with the event's time (`at`)."""
        return self.at or self.stream.event_time

    @property
    def watermark_delay(self) -> timedelta:
        """How far the watermark stays behind (`delay`)."""
        # The time of a change is the producer's watermark, which two batches may share. An event at the watermark is late.
        least = timedelta(microseconds=isinstance(self.stream, JobTable) and self.stream.are_changes)
        return max(least, self.delay or timedelta(0))

    @cached_property
    def schema(self) -> pa.Schema:
        """The declarations of `columns`."""
        return events_schema(self)

    @property
    def is_late_at(self) -> pl.Expr | None:
        """The time at which an event's result is final (`final_at`); None if the step decides."""
        final = pl.col(self.final_at) if isinstance(self.final_at, str) else self.final_at
        return None if final is None or not final.meta.root_names() else final

    @property
    def table(self) -> str:
        """The name of the table that is read."""
        return self.stream.name if isinstance(self.stream, JobTable) else f"events.{self.stream.name}"

    @property
    def producer(self) -> str | None:
        """The job that writes the table; None for a stream."""
        return self.stream.job if isinstance(self.stream, JobTable) else None

    @property
    def stored_time(self) -> str:
        """The column of the table with the times that the input goes by."""
        return self.time_from or self.event_time

    @property
    def is_wanted(self) -> pl.Expr:
        """Whether a row of the table is an event of this input; never NULL."""
        return pl.lit(value=True) if self.condition is None else self.condition.fill_null(value=False)

    @property
    def taken(self) -> pl.Expr:
        """The number of events in rows of the table: rows that fulfil the condition, once per key."""
        if self.exploded is not None:
            return self.exploded.number.filter(self.is_wanted).sum()
        return pl.len() if self.condition is None else self.is_wanted.sum().cast(pl.Int64)

    def wanted(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows of a file of the table that are events of this input."""
        if self.condition is None:
            return rows
        in_file, kinds = rows.collect_schema(), pl.Schema(self.stream.event_schema)
        # Files that were written before a column was added to the table lack it.
        lacking = [name for name in self.condition.meta.root_names() if name not in in_file]
        return rows.with_columns(pl.lit(None, kinds[name]).alias(name) for name in lacking).filter(self.condition)

    def may_lack(self, column_: pa.Field) -> bool:
        """Return whether an event may have no value in a column: it is nullable, and the condition names nothing it is made of."""
        derived = self.derived.get(column_.name)
        named = [] if self.condition is None else self.condition.meta.root_names()
        if not column_.nullable or derived is None:
            return column_.nullable and column_.name not in named
        # By its text, since an evaluation starts threads, which a fork after an import lacks. A run looks at the values.
        is_filled = any(f".{function}(" in str(expression_of(derived)) for function in ("fill_null", "coalesce"))
        roots = [self.stream.event_schema.field(name) for name in roots_of(derived)]
        return not is_filled and any(root.nullable and root.name not in named for root in roots)

    def check_key(self, subject: str, column_: pa.Field) -> None:
        """Check that no event lacks a column of the key.

        Raises:
            Misconfigured: one may.
        """
        if self.may_lack(column_):
            derived = self.derived.get(column_.name)
            root = column_.name if derived is None else roots_of(derived)[0]
            remedy = (
                "declare it with nullable=False if no event lacks it"
                if derived is None
                else "derive it with `fill_null`"
            )
            raise Misconfigured(
                f"{subject}: key column {column_.name} may be NULL, and NULL equals nothing, not even itself: {remedy}, or leave "
                f"such events out: {self.stream.name}.where(pl.col({root!r}).is_not_null())"
            )

    def with_defaults(
        self, *, delay: timedelta | None = None, idle_timeout: timedelta | None = None, by_arrival: bool = False
    ) -> "Input":
        """Return the input with the parameters of its job, where it does not say otherwise."""
        return replace(
            self,
            delay=delay if self.delay is None else self.delay,
            idle_timeout=idle_timeout if self.idle_timeout is None else self.idle_timeout,
            # Rows of other jobs' tables have no arrival, and keep their times.
            time_from=INGESTED_AT
            if by_arrival and not self.producer and self.event_time != INGESTED_AT
            else self.time_from,
        )


Source = Input | Stream | JobTable | Refined
"""What an input is declared as: a stream or a table of a job, refined or not, stands for its `Input`."""


def as_input(source: Source) -> Input:
    """Return the input that a stream or a table of a job stands for.

    Raises:
        Misconfigured: it is none.
    """
    return source if isinstance(source, Input) else Input(source)


def events_schema(input_: Input) -> pa.Schema:
    """Return the columns of an input's events: those it declares, with names looked up in the table and among what is derived.

    Raises:
        Misconfigured: a name is of no column, or a derived column does not fit the table.
    """
    table = input_.stream.event_schema
    if input_.event_time not in table.names and input_.time_from:
        table = table.append(table.field(input_.time_from).with_name(input_.event_time))
    new = input_.refined.new_columns
    names = input_.columns
    if isinstance(names, pa.Schema):
        return names
    if names is None:
        names = [*(name for name in table.names if name not in new), *new]
    fields = []
    for name in names:
        if name in input_.derived:
            fields.append(_derived_field(input_, name, input_.derived[name]))
        elif input_.exploded is not None and name == input_.exploded.column:
            fields.append(_exploded_field(input_, input_.exploded))
        else:
            fields.append(field_of(f"input {input_.stream.name}: columns", name, table))
    return pa.schema(fields)


def _derived_field(input_: Input, name: str, derived: Derived) -> pa.Field:
    table = input_.stream.event_schema
    roots = [field_of(f"input {input_.stream.name}: derive: {name}", root, table) for root in roots_of(derived)]
    kind = _type_of(input_, f"derive: {name}", expression_of(derived))
    lineage = [root.name for root in roots]
    if is_column(derived):
        return roots[0].with_name(name)
    nullable = any(root.nullable for root in roots)
    return column(name, arrow_type(kind), f"Computed from {', '.join(lineage)}", lineage=lineage, nullable=nullable)


def _exploded_field(input_: Input, explosion: Explosion) -> pa.Field:
    roots = explosion.values.meta.root_names()
    for root in roots:
        field_of(f"input {input_.stream.name}: explode: {explosion.column}", root, input_.stream.event_schema)
    kind = _type_of(input_, f"explode: {explosion.column}", explosion.values)
    if not isinstance(kind, pl.List):
        raise Misconfigured(f"input {input_.stream.name}: explode: the values are {kind}; they must be a list")
    return column(explosion.column, arrow_type(kind.inner), f"One of {', '.join(roots)}", lineage=roots, nullable=False)


def _type_of(input_: Input, argument: str, expression: pl.Expr) -> pl.DataType:
    try:
        return type_of(expression, pl.Schema(input_.stream.event_schema))
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(
            f"input {input_.stream.name}: {argument} does not fit {input_.table}: {str(error).splitlines()[0]}"
        ) from None
