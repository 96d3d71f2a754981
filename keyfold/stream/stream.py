"""Declare a stream: the columns of its events, their sources in raw data, validity rules, and what makes two events copies."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from functools import lru_cache
from typing import Literal

import polars as pl
import pyarrow as pa
from pyarrow import types

from keyfold.columns import required
from keyfold.schemas import Columns, check_condition, to_name, to_names, to_stored_schema
from keyfold.stream.file_format import FileFormat
from keyfold.stream.nested import check_nested
from keyfold.stream.refined import Refinable
from keyfold.stream.source import INGESTED_AT, ISO, TIME_UNITS, TIMESTAMP, Path, Source, list_of, read_schema
from keyfold.times import to_duration
from keyfold.validation import argument, declaration, never_null, optional


@declaration("rule {reason}")
class Rule:
    """A validity rule: rows where `broken` is true go to quarantine with `reason`.

    Example:
        >>> Rule("speed is negative", pl.col("speed") < 0).reason
        'speed is negative'
    """

    reason: str
    broken: pl.Expr


def _to_rules(value: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(value)


def _to_columns(value: Columns) -> pa.Schema:
    """Convert the columns of an event, of which ingest must read each."""
    schema = to_stored_schema(value)
    if INGESTED_AT in schema.names:
        raise ValueError(
            f"it has a column {INGESTED_AT}, a name that Keyfold needs for the time at which events arrive; give it another name, "
            f"such as `received_at`, with sources={{'received_at': Source(('{INGESTED_AT}',))}}"
        )
    for column in schema:
        if not _is_readable(column.type):
            raise ValueError(
                f"{column.name} is {column.type}, which ingest cannot read; take text, numbers, decimals, true or false, times "
                f"({TIMESTAMP}), dates (date32), or lists or objects of them"
            )
    return schema


def _is_readable(kind: pa.DataType) -> bool:
    if types.is_struct(kind):
        return all(_is_readable(field.type) for field in kind)
    if types.is_list(kind):
        return _is_readable(kind.value_type)
    return kind in (TIMESTAMP, pa.date32()) or any(is_kind(kind) for is_kind in _READ)


_READ = (
    types.is_string, types.is_boolean, types.is_signed_integer, types.is_float32, types.is_float64, types.is_decimal128,
)  # fmt: skip


@declaration("stream {name}")
class Stream(Refinable):
    """One kind of event. `where`, `derive` and `explode` refine it for a job that reads it.

    A value of a text format is a text, which the column's type reads without guesses (`parsing.casting`). A column of lists also
    accepts a single value, as a list with one element.

    Attributes:
        name: names the landing folder and the tables `events.<name>` and `quarantine.<name>`.
        schema: columns of an event (`keyfold.columns`), also as a list of them or a dict of names and types; a column that is not
            nullable needs a value, as do those of `event_time` and `event_id` in a dict. They are text, numbers, decimals, true
            or false, times (UTC, microseconds), dates, or lists or objects of them. The event table has one more column,
            `ingested_at` (`event_schema`).
        event_time: the column with the event's time (UTC); `INGESTED_AT` if messages have no time, so that the time of
            arrival is the event time.
        missing_time: how to treat a message without a time: it goes to `quarantine`, or its `arrival` is taken as its event
            time. A time that cannot be parsed always goes to quarantine.
        description: description of the event table.
        sources: sources of columns, by the column's name; a column that is not named is read from the raw column of its name.
        ignored: raw columns that are left out on purpose, and are not reported as drift.
        missing: texts that mean a missing value, in any column.
        format: what its files are like: delimiter and decimal sign of CSV, encoding, and the zone of times without one.
        event_id: columns that together identify an event; empty keeps every row.
        rules: validity rules on the typed columns.
        duplicate_window: greatest distance in event time at which two copies of an event are recognised; this and the next two
            also as text, such as `"7d"`.
        future_bound: how far after the admission of its file an event's time may be.
        max_age: how much older than the newest event of earlier runs an event may be; an older one goes to quarantine, and
            ids are kept for this window only (`ingestion.planning`). None accepts events of any age, and keeps all ids.
        done_marker: whether a file is complete only when `NAME.done` or `_SUCCESS` is beside it
            (`ingestion.listing`).
        private: columns with personal or confidential values. The tables hold them; previews, samples, pages and logs do
            not show them.
        max_line_bytes: longest line of a text file, or row of a Parquet file; a file with a longer one goes to quarantine
            as a whole.
        max_file_bytes: largest file, decompressed; a larger one goes to quarantine as a whole.

    Raises:
        Misconfigured: a setting names a column that the schema does not have, or two settings exclude each other.

    Example:
        >>> from keyfold import column
        >>> clicks = Stream(
        ...     "clicks",
        ...     pa.schema([
        ...         column("user", pa.string(), "Who clicked", nullable=False),
        ...         column("at", TIMESTAMP, "When", nullable=False),
        ...     ]),
        ...     event_time="at",
        ...     sources={"at": Source(("ts",), time="s")},
        ... )
        >>> clicks.event_schema.names
        ['user', 'at', 'ingested_at']
    """

    name: str = argument(converter=to_name)
    schema: pa.Schema = argument(converter=_to_columns)
    event_time: str
    missing_time: Literal["quarantine", "arrival"] = "quarantine"
    description: str = ""
    sources: Mapping[str, Source] = field(default_factory=dict)
    ignored: tuple[str, ...] = argument(converter=to_names, default=())
    missing: tuple[str, ...] = argument(converter=to_names, default=())
    format: FileFormat = field(default_factory=FileFormat)
    event_id: tuple[str, ...] = argument(converter=to_names, default=())
    rules: tuple[Rule, ...] = argument(converter=_to_rules, default=())
    duplicate_window: timedelta = argument(converter=to_duration, default=timedelta(days=7))
    future_bound: timedelta = argument(converter=to_duration, default=timedelta(days=1))
    max_age: timedelta | None = argument(converter=optional(to_duration), default=None)
    done_marker: bool = False
    private: tuple[str, ...] = argument(converter=to_names, default=())
    max_line_bytes: int = 16 << 20
    max_file_bytes: int = 8 << 30

    _ = never_null("schema", by=("event_time", "event_id"))

    def __post_init__(self) -> None:
        self._check_names()
        self._check_times()
        for rule in self.rules:
            check_condition(f"stream {self.name}: rule {rule.reason!r}", rule.broken, self.schema)
        sources = {column: self.source(column) for column in self.schema.names}
        check_nested(self.schema, sources, self.private, self.event_id)

    def _check_names(self) -> None:
        named = {
            "event_time": () if self.event_time == INGESTED_AT else (self.event_time,),
            "event_id": self.event_id,
            "sources": tuple(self.sources),
            "private": self.private,
        }
        for field_name, columns in named.items():
            if lacking := [column for column in columns if column not in self.schema.names]:
                raise ValueError(
                    f"{field_name} names {', '.join(lacking)}, which its schema does not have; it has {', '.join(self.schema.names)}"
                )

    def _check_times(self) -> None:
        if self.event_time != INGESTED_AT and (kind := self.schema.field(self.event_time).type) != TIMESTAMP:
            raise ValueError(f"event_time {self.event_time} is {kind}; it must be {TIMESTAMP}")
        by_arrival = self.missing_time == "arrival"
        if by_arrival and self.event_time == INGESTED_AT:
            raise ValueError("its event time is the arrival, which no message lacks: leave missing_time out")
        if by_arrival and self.event_time in self.event_id:
            raise ValueError(
                f"event_id names {self.event_time}, and missing_time lets the arrival stand in for it: two messages without a time "
                "that arrive together would be copies; leave it out of event_id, or leave event_id empty to keep all"
            )
        age = self.max_age
        if age is not None and (age <= timedelta(0) or age < self.future_bound):
            raise ValueError(
                f"max_age is {age}, and future_bound {self.future_bound}: one event from that far ahead would make all events of "
                "now too old; give a longer max_age, or a shorter future_bound"
            )
        if age is not None and by_arrival:
            raise ValueError(
                "max_age is measured from the newest event time, and missing_time lets the arrival stand in for it: older events "
                "would then be too old; leave one of them out"
            )
        for name, source in self.sources.items():
            if source.time and (self.schema.field(name).type != TIMESTAMP or not source.has_time_formats):
                raise ValueError(
                    f"the source of {name} says that its times are written as {', '.join(map(repr, source.time))}; that is for a column "
                    f"of type {TIMESTAMP}, and one of {', '.join((*TIME_UNITS, ISO))} or a format such as %d/%m/%Y %H:%M"
                )
            if len(units := [unit for unit in source.time if unit in TIME_UNITS]) > 1:
                raise ValueError(
                    f"the source of {name} has numbers that count {' and '.join(units)} from 1970, and no number tells which; name "
                    "one unit"
                )

    def source(self, column: str) -> Source:
        """Return the source of a column."""
        return self.sources.get(column) or _same_name(column)

    @property
    def goes_by_arrival(self) -> bool:
        """Whether the event time of some or all of its events is their arrival."""
        return self.event_time == INGESTED_AT or self.missing_time == "arrival"

    @property
    def event_schema(self) -> pa.Schema:
        """The columns of the event table: those of `schema`, and `ingested_at`."""
        return self.schema.append(_ARRIVAL)

    def schema_by(self, time: str) -> pa.Schema:
        """Return the columns of an event for a job that goes by this time: with `ingested_at` only if it is that."""
        return self.event_schema if time == INGESTED_AT else self.schema

    @property
    def raw_schema(self) -> pa.Schema:
        """The raw columns that rows may have, with the types of the event columns that are made of them."""
        sources = [(self.source(column.name), column.type) for column in self.schema]
        # The place of an element is not in the raw data: it is counted when the list is taken apart.
        return read_schema(
            (name, source.raw_type(kind)) for source, kind in sources if not source.place for name in source.raw_names
        )

    @property
    def raw_names(self) -> tuple[str, ...]:
        """The names of raw columns, as the sources spell them."""
        return tuple(dict.fromkeys(name for column in self.schema.names for name in self.source(column).raw_names))

    @property
    def list_path(self) -> Path | None:
        """The path of the list whose elements are events; None if each row is an event."""
        return list_of(self.raw_names)


@lru_cache(maxsize=4096)
def _same_name(column: str) -> Source:
    """Return the source of a column that is read from the raw column of its name: it is asked for with each file."""
    return Source(names=(column,))


_ARRIVAL = required(
    INGESTED_AT, TIMESTAMP, "Arrival: when the file, or the message, that the event came in was admitted (UTC)"
)


def outside(column: str, low: float, high: float) -> pl.Expr:
    """Return an expression that is true for values outside of a closed range, for a `Rule`.

    Example:
        >>> pl.DataFrame({"speed": [-1.0, 3.0]}).filter(outside("speed", 0, 100)).height
        1
    """
    return ~pl.col(column).is_between(low, high)


def not_empty(column: str) -> Rule:
    """Return a rule that refuses empty and blank text.

    Example:
        >>> not_empty("user").reason
        'user is empty'
    """
    return Rule(f"{column} is empty", pl.col(column).str.strip_chars() == "")
