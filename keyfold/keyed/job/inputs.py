"""Declare the inputs of a job: event tables of streams, and tables of other jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.errors import Misconfigured
from keyfold.keyed.rows.hashing import PartOf
from keyfold.stream import TIMESTAMP, Stream

INPUT = "input"
"""Reserved column of events of several inputs, and of their late table: the name of the row's input."""
EVENT_TIME = "event_time"
"""Reserved column of events of several inputs, and of their late table: the event time of the row."""


@dataclass(frozen=True)
class JobTable:
    """A table of another job as an input (`Input`), made by `KeyedJob.table` or `KeyedJob.changes`.

    The watermark of such an input is the producer's watermark less `Input.watermark_delay`. So event time advances also when
    the producer writes no rows. Rows further behind the producer's watermark than that delay are late.

    Attributes:
        job: name of the producer.
        name: name of the table.
        schema: its columns.
        private: its private columns.
        are_changes: whether it has the changes of an upsert table, whose times are the producer's watermarks.

    Example:
        >>> from keyfold import build_job
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> build_job(RIDE_SUMMARIES).table("long_rides").job
        'ride_summaries'
    """

    job: str
    name: str
    schema: pa.Schema
    private: tuple[str, ...] = ()
    are_changes: bool = False
    # As a `Stream` has it: no row of a job's table has its arrival for a time.
    missing_time: Literal["quarantine"] = field(init=False, default="quarantine")

    @property
    def event_schema(self) -> pa.Schema:
        """Its columns; a `Stream` has a property of the same name."""
        return self.schema


@dataclass(frozen=True)
class Input:
    """One of the inputs of a job (`KeyedJob.with_inputs`).

    Attributes:
        stream: the stream whose event table is read, or a table of a job (`JobTable`).
        events: columns that the step needs, with the job's key and `event_time`.
        event_time: the column of the table with the event's time, a UTC timestamp.
        watermark_delay: how far the input's watermark stays behind its newest event time, or behind the watermark of the job
            that writes the table. For changes of an upsert table it is at least a microsecond.
        time_from: another column of the table whose values replace those of `event_time`. With `ingested_at` the input goes
            by arrival.
        derived: columns of `events` that are not in the table, as expressions over its columns. It can also rename columns:
            `{"station": pl.col("station_id")}`.
        idle_timeout: after this long without new events the input is idle: it no longer holds back the job's watermark, and
            its later events may be late. None waits for it without limit.
        conserved: whether `output_events`, `state_events` and the `events` of side outputs count its events. False for
            versions that replace each other, and for events that may end without a row, such as those without a match.
        where: condition on the columns of the table, as they are stored. Rows for which it is false or NULL are left out when
            they are read. They advance event time, as all events of the table do.

    Example:
        >>> time = pa.timestamp("us", tz="UTC")
        >>> text = pa.field("card", pa.string(), nullable=False)
        >>> when = pa.field("at", time, nullable=False)
        >>> orders = Stream("orders", pa.schema([text, when]), event_time="at")
        >>> Input(orders, orders.schema, "at", timedelta(minutes=5)).events.names
        ['card', 'at']
    """

    stream: Stream | JobTable
    events: pa.Schema
    event_time: str
    watermark_delay: timedelta = timedelta(0)
    time_from: str = ""
    derived: Mapping[str, pl.Expr | PartOf] = field(default_factory=dict)
    idle_timeout: timedelta | None = None
    conserved: bool = True
    where: pl.Expr | None = None

    def __post_init__(self) -> None:
        # The time of a change is the producer's watermark, which two batches may share. An event at the watermark is late.
        if isinstance(self.stream, JobTable) and self.stream.are_changes and not self.watermark_delay:
            object.__setattr__(self, "watermark_delay", timedelta(microseconds=1))

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
        return pl.lit(value=True) if self.where is None else self.where.fill_null(value=False)

    def wanted(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows of a file of the table that are events of this input."""
        if self.where is None:
            return rows
        in_file, kinds = rows.collect_schema(), pl.Schema(self.stream.event_schema)
        # Files that were written before a column was added to the table lack it.
        lacking = [name for name in self.where.meta.root_names() if name not in in_file]
        return rows.with_columns(pl.lit(None, kinds[name]).alias(name) for name in lacking).filter(self.where)


def check_inputs_fit(job: str, key: tuple[str, ...], inputs: Mapping[str, Input]) -> None:
    """Check that a job can have these inputs.

    Raises:
        Misconfigured: a column is missing, has a reserved name, or has different types in two inputs; names the remedy.
    """
    where = f"job {job}"
    if not inputs:
        raise Misconfigured(f"{where}: it has no inputs; give one stream or more, by name")
    seen: dict[str, tuple[str, pa.DataType]] = {}
    for name, one in inputs.items():
        at = f"{where}: input {name}"
        if not name.isidentifier():
            raise Misconfigured(f"{at}: a name has letters, digits and underscores")
        if not isinstance(one.stream, Stream | JobTable):
            raise Misconfigured(f"{at}: stream is {one.stream!r}; it must be the Stream itself, and not its name")
        if one.producer == job:
            raise Misconfigured(f"{at} is the job's own table {one.table}: what it writes cannot be what it reads")
        if lacking := [needed for needed in (*key, one.event_time, *one.derived) if needed not in one.events.names]:
            raise Misconfigured(
                f"{at}: events has no column {', '.join(lacking)}; it has {', '.join(one.events.names)}"
            )
        if one.event_time in one.derived:
            raise Misconfigured(f"{at}: event_time {one.event_time} is derived; it must be a column of the event table")
        if one.events.field(one.event_time).type != TIMESTAMP:
            raise Misconfigured(
                f"{at}: event_time {one.event_time} is {one.events.field(one.event_time).type}; it must be {TIMESTAMP}"
            )
        if one.watermark_delay < timedelta(0):
            raise Misconfigured(f"{at}: watermark_delay is negative")
        if one.idle_timeout is not None and one.idle_timeout <= timedelta(0):
            raise Misconfigured(f"{at}: idle_timeout is {one.idle_timeout}; it must be longer than nothing")
        check_condition(at, one)
        for column_ in one.events:
            _check_column(at, one, column_, key, seen)
            seen.setdefault(column_.name, (name, column_.type))


def check_condition(at: str, one: Input) -> None:
    """Check that the condition of an input can be evaluated on the rows of its table.

    Raises:
        Misconfigured: it names no column, or one that the table lacks; or it is not Boolean.
    """
    if one.where is None:
        return
    schema = one.stream.event_schema
    if lacking := sorted(set(one.where.meta.root_names()) - set(schema.names)):
        raise Misconfigured(f"{at}: where names {', '.join(lacking)}; {one.table} has {', '.join(schema.names)}")
    try:
        # Polars finds a condition that does not fit the columns' types also on a frame without rows.
        kind = pl.DataFrame(schema=pl.Schema(schema)).select(held=one.where)["held"].dtype
    except pl.exceptions.PolarsError as error:
        raise Misconfigured(f"{at}: where does not fit {one.table}: {str(error).splitlines()[0]}") from None
    if kind != pl.Boolean or not one.where.meta.root_names():
        raise Misconfigured(f"{at}: where is {one.where}; it must be true or false by columns of {one.table}")


def _check_column(
    at: str, one: Input, column_: pa.Field, key: tuple[str, ...], seen: Mapping[str, tuple[str, pa.DataType]]
) -> None:
    rename = "give it another name with `derived`"
    if column_.name in key and column_.nullable:
        raise Misconfigured(
            f"{at}: key column {column_.name} may be NULL, and NULL equals nothing, not even itself: declare it with "
            "nullable=False, and see that no event lacks it"
        )
    before = seen.get(column_.name)
    if before is not None and before[1] != column_.type:
        what = "the key's column" if column_.name in key else "column"
        remedy = "a key has one type in all inputs: cast it with `derived`" if column_.name in key else rename
        raise Misconfigured(
            f"{at}: {what} {column_.name} is {column_.type}, and {before[1]} in input {before[0]}; {remedy}"
        )
