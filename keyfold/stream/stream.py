"""Declare a stream: the columns of its events, their sources in raw data, validity rules, and what makes two events copies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.columns import required
from keyfold.errors import Misconfigured
from keyfold.stream.source import EACH, TIME_UNITS, Path, Source, list_of, name_of, path_of, read_schema

TIMESTAMP = pa.timestamp("us", tz="UTC")

INGESTED_AT = "ingested_at"
"""The column of every event table with the time of arrival. Keyfold fills it; no stream declares it."""


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
class Stream:
    """One kind of event.

    Raw values are cast to the schema's types without guesses (`parsing.casting`). A column of lists also accepts a single
    value, as a list with one element.

    Attributes:
        name: names the landing folder and the tables `events.<name>` and `quarantine.<name>`.
        schema: columns of an event (`keyfold.columns`); a column that is not nullable needs a value. The event table has
            one more column, `ingested_at` (`event_schema`).
        event_time: the column with the event's time (UTC); `INGESTED_AT` if messages have no time, so that the time of
            arrival is the event time.
        missing_time: how to treat a message without a time: it goes to `quarantine`, or its `arrival` is taken as its event
            time. A time that cannot be parsed always goes to quarantine.
        description: description of the event table.
        sources: sources of columns, by the column's name; a column that is not named is read from the raw column of its name.
        ignored: raw columns that are left out on purpose, and are not reported as drift.
        missing: texts that mean a missing value, in any column.
        event_id: columns that together identify an event; empty keeps every row.
        rules: validity rules on the typed columns.
        duplicate_window: greatest distance in event time at which two copies of an event are recognised.
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
        if INGESTED_AT in self.schema.names:
            raise Misconfigured(
                f"stream {self.name}: its schema has a column {INGESTED_AT}, a name that Keyfold needs for the time at which "
                f"events arrive; call it otherwise, such as `received_at`, with sources={{'received_at': "
                f"Source(('{INGESTED_AT}',))}}"
            )
        named = {
            "event_time": () if self.event_time == INGESTED_AT else (self.event_time,),
            "event_id": self.event_id,
            "sources": tuple(self.sources),
            "private": self.private,
        }
        for what, columns in named.items():
            if strangers := [column for column in columns if column not in self.schema.names]:
                raise Misconfigured(
                    f"stream {self.name}: {what} names {', '.join(strangers)}, which its schema does not have; it has "
                    f"{', '.join(self.schema.names)}"
                )
        if self.missing_time == "arrival" and self.event_time == INGESTED_AT:
            raise Misconfigured(
                f"stream {self.name}: its event time is the arrival, which no message lacks: leave missing_time out"
            )
        if self.missing_time == "arrival" and self.event_time in self.event_id:
            raise Misconfigured(
                f"stream {self.name}: event_id names {self.event_time}, and missing_time lets the arrival stand in for it: two "
                "messages without a time that arrive together would be copies; leave it out of event_id, or leave event_id "
                "empty to keep all"
            )
        _check_age(self)
        for name, source in self.sources.items():
            if source.time and (self.schema.field(name).type != TIMESTAMP or not _is_time_shape(source.time)):
                raise Misconfigured(
                    f"stream {self.name}: the source of {name} says that its times are written as {source.time!r}; that is "
                    f"for a column of type {TIMESTAMP}, and one of {', '.join(TIME_UNITS)} or a format such as "
                    "%d/%m/%Y %H:%M"
                )
        _check_paths(self)

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


def _is_time_shape(shape: str) -> bool:
    return shape in TIME_UNITS or "%" in shape


def _check_age(stream: Stream) -> None:
    """Check that current events can never be older than `max_age`.

    Raises:
        Misconfigured: they can.
    """
    age = stream.max_age
    if age is None:
        return
    if age <= timedelta(0) or age < stream.future_bound:
        raise Misconfigured(
            f"stream {stream.name}: max_age is {age}, and future_bound {stream.future_bound}: one event from that far ahead "
            "would make all events of now too old; give a longer max_age, or a shorter future_bound"
        )
    if stream.missing_time == "arrival":
        raise Misconfigured(
            f"stream {stream.name}: max_age is measured from the newest event time, and missing_time lets the arrival stand in "
            "for it: older events would then be too old; leave one of them out"
        )


def _check_paths(stream: Stream) -> None:
    """Check the sources that read nested data.

    Raises:
        Misconfigured: a source is invalid, or sources do not go together.
    """
    where = f"stream {stream.name}"
    try:
        elements = stream.list_path
    except ValueError as error:
        raise Misconfigured(f"{where}: {error}; the elements of one list alone become events") from None
    placed = {name for name, source in stream.sources.items() if source.place}
    as_json = {name: source for name, source in stream.sources.items() if source.json}
    for name in (*placed, *as_json):
        source, wanted = stream.sources[name], pa.int64() if name in placed else pa.string()
        what = "place" if name in placed else "json"
        if stream.schema.field(name).type != wanted or source.time or (source.place and (source.json or source.names)):
            raise Misconfigured(
                f"{where}: the source of {name} has {what}=True, which is for a column of type {wanted}"
            )
    if placed and elements is None:
        raise Misconfigured(
            f"{where}: the source of {', '.join(sorted(placed))} has place=True, and no other leads into the elements of a "
            "list, such as Source('readings[].value')"
        )
    for name, source in as_json.items():
        if strange := [one for one in source.names if not all(isinstance(step, str) for step in path_of(one))]:
            raise Misconfigured(
                f"{where}: the source of {name} has json=True, which keeps what keys of objects lead to, and "
                f"{', '.join(strange)} leads into a list"
            )
        # The text of an object contains the values below it, and so those of private columns.
        tops = [path_of(one) for one in source.names] or [()]
        inside = [
            column
            for column in stream.private
            if any(path_of(one)[: len(top)] == top for one in stream.source(column).names for top in tops)
        ]
        if inside and name not in stream.private:
            raise Misconfigured(
                f"{where}: {name} keeps the text that the private {', '.join(inside)} is taken from; name it in private too"
            )
    ids = [stream.source(name) for name in stream.event_id]
    if elements is not None and ids and not any(_tells_elements_apart(one) for one in ids):
        raise Misconfigured(
            f"{where}: event_id has no column of the elements of {name_of(elements)}, so that all elements of a list would be "
            "copies; add a column of the element, or its place: Source(place=True)"
        )


def _tells_elements_apart(source: Source) -> bool:
    return source.place or any(EACH in path_of(name) for name in source.names)


def outside(column: str, low: float, high: float) -> pl.Expr:
    """Return an expression that is true for values outside of a closed range."""
    return ~pl.col(column).is_between(low, high)


def not_empty(column: str) -> Rule:
    """Return a rule that refuses empty and blank text."""
    return Rule(f"{column} is empty", pl.col(column).str.strip_chars() == "")


POSITION = (
    Rule("latitude is outside -90 to 90", outside("latitude", -90, 90)),
    Rule("longitude is outside -180 to 180", outside("longitude", -180, 180)),
)
"""Rules for the columns `latitude` and `longitude`, in degrees."""
