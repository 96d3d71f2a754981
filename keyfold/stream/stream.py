"""Declare a stream: the columns of its events, their sources in raw data, validity rules, and what makes two events copies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.columns import required
from keyfold.schemas import names_of, stored_schema
from keyfold.stream.checks import check_stream
from keyfold.stream.file_format import FileFormat
from keyfold.stream.refined import Refinable
from keyfold.stream.source import INGESTED_AT, TIMESTAMP, Path, Source, list_of, read_schema
from keyfold.times import as_duration


@dataclass(frozen=True)
class Rule:
    """A validity rule: rows where `broken` is true go to quarantine with `reason`.

    Example:
        >>> Rule("speed is negative", pl.col("speed") < 0).reason
        'speed is negative'
    """

    reason: str
    broken: pl.Expr


@dataclass(frozen=True)
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

    name: str
    schema: pa.Schema
    event_time: str
    missing_time: Literal["quarantine", "arrival"] = "quarantine"
    description: str = ""
    sources: Mapping[str, Source] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    format: FileFormat = field(default_factory=FileFormat)
    event_id: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    duplicate_window: timedelta = timedelta(days=7)
    future_bound: timedelta = timedelta(days=1)
    max_age: timedelta | None = None
    done_marker: bool = False
    private: tuple[str, ...] = ()
    max_line_bytes: int = 16 << 20
    max_file_bytes: int = 8 << 30

    def __post_init__(self) -> None:
        for name in ("event_id", "private", "ignored", "missing"):
            object.__setattr__(self, name, names_of(getattr(self, name)))
        for name in ("duplicate_window", "future_bound", "max_age"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, as_duration(f"stream {self.name}: {name}", given))
        never_null = (self.event_time, *self.event_id)
        object.__setattr__(self, "schema", stored_schema(f"stream {self.name}: schema", self.schema, never_null))
        check_stream(self)

    def source(self, column: str) -> Source:
        """Return the source of a column."""
        return self.sources.get(column) or Source(names=(column,))

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
