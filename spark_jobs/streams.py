"""The streams: what an event looks like, where its columns come from, what makes it valid, and the same event twice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Rule:
    """A validity rule: rows where `broken` is true go to quarantine with `reason`."""

    reason: str
    broken: pl.Expr


@dataclass(frozen=True)
class Source:
    """Where an event column's value comes from in raw data; the first of these that has one gives it, row by row.

    Attributes:
        names: raw columns, in order.
        path: the file's path below its landing folder, without its endings (`.csv.gz`).
        constant: the same value for every row.
    """

    names: tuple[str, ...] = ()
    path: bool = False
    constant: Any = None


@dataclass(frozen=True)
class Stream:
    """One kind of event.

    Raw values are cast to the schema's types without guesses (`parsing.casting`); a column of lists also takes a single
    value, as a list of one.

    Attributes:
        name: names the landing folder and the tables `events.<name>` and `quarantine.<name>`.
        schema: columns and Arrow types of the event table; a column that is not nullable must be there.
        event_time: the column with the event's time (UTC).
        sources: where a column comes from, by its name; a column that is left out is the raw column of its own name.
        ignored: raw columns that are left out on purpose, so that they are no drift.
        missing: texts that stand for no value, in any column.
        event_id: columns that together identify an event; empty keeps every row.
        rules: further rules on the typed columns.
        duplicate_window: how far apart, in event time, two copies of an event may lie to be recognised as such.
        future_bound: how far past its file's admission an event's time may lie.
        done_marker: whether its files are whole only once `NAME.done` or `_SUCCESS` stands beside them
            (`ingest.sources.files`).
        max_line_bytes: the longest line of a text file; a file with a longer one goes to quarantine as a whole.
        max_file_bytes: the longest file, decompressed; a longer one goes to quarantine as a whole.
    """

    name: str
    schema: pa.Schema
    event_time: str
    sources: Mapping[str, Source] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    event_id: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    duplicate_window: timedelta = timedelta(days=7)
    future_bound: timedelta = timedelta(days=1)
    done_marker: bool = False
    max_line_bytes: int = 16 << 20
    max_file_bytes: int = 8 << 30

    def source(self, column: str) -> Source:
        """Where a column comes from."""
        return self.sources.get(column) or Source(names=(column,))

    @property
    def raw_schema(self) -> pa.Schema:
        """The raw columns that a file may have, each with the type of the event column that it becomes."""
        return pa.schema(
            [pa.field(name, column.type) for column in self.schema for name in self.source(column.name).names]
        )


def _outside(column: str, low: float, high: float) -> pl.Expr:
    return ~pl.col(column).is_between(low, high)


def _empty(column: str) -> Rule:
    return Rule(f"{column} is empty", pl.col(column).str.strip_chars() == "")


_POSITION = (
    Rule("latitude is outside -90 to 90", _outside("latitude", -90, 90)),
    Rule("longitude is outside -180 to 180", _outside("longitude", -180, 180)),
)


RIDE_STATUSES = ("pickup", "enroute", "dropoff")

RIDE_POINTS = Stream(
    name="ride_points",
    schema=pa.schema(
        [
            pa.field("ride_id", pa.string(), nullable=False),
            pa.field("point_idx", pa.int32(), nullable=False),
            pa.field("latitude", pa.float64(), nullable=False),
            pa.field("longitude", pa.float64(), nullable=False),
            pa.field("timestamp", TIMESTAMP, nullable=False),
            pa.field("meter_reading", pa.float64()),
            pa.field("meter_increment", pa.float64()),
            pa.field("ride_status", pa.string(), nullable=False),
            pa.field("passenger_count", pa.int32()),
        ]
    ),
    event_time="timestamp",
    event_id=("ride_id", "point_idx"),
    rules=(
        _empty("ride_id"),
        *_POSITION,
        Rule(f"ride_status is none of {', '.join(RIDE_STATUSES)}", ~pl.col("ride_status").is_in(RIDE_STATUSES)),
        Rule("point_idx is negative", pl.col("point_idx") < 0),
    ),
)

WEATHER = Stream(
    name="weather",
    schema=pa.schema(
        [
            pa.field("station_id", pa.string(), nullable=False),
            pa.field("time", TIMESTAMP, nullable=False),
            pa.field("temp", pa.float64()),
            pa.field("dewp", pa.float64()),
            pa.field("humid", pa.float64()),
            pa.field("wind_dir", pa.float64()),
            pa.field("wind_speed", pa.float64()),
            pa.field("wind_gust", pa.float64()),
            pa.field("precip", pa.float64()),
            pa.field("pressure", pa.float64()),
            pa.field("visib", pa.float64()),
        ]
    ),
    event_time="time",
    sources={
        "station_id": Source(("station_id", "origin")),
        "time": Source(("time", "time_hour", "timestamp")),
    },
    ignored=("year", "month", "day", "hour"),
    missing=("NA",),
    event_id=("station_id", "time"),
    rules=(
        _empty("station_id"),
        Rule("humid is outside 0 to 110", _outside("humid", 0, 110)),
        Rule("pressure is outside 800 to 1100", _outside("pressure", 800, 1100)),
        Rule("temp is outside -150 to 160", _outside("temp", -150, 160)),
    ),
)

METRICS = Stream(
    name="metrics",
    schema=pa.schema(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("timestamp", TIMESTAMP, nullable=False),
            pa.field("value", pa.float64(), nullable=False),
        ]
    ),
    event_time="timestamp",
    sources={"key": Source(("key",), path=True)},
    # The value too: clocks that are set back in autumn measure an hour twice.
    event_id=("key", "timestamp", "value"),
    rules=(_empty("key"),),
)

TELEMETRY = Stream(
    name="telemetry",
    schema=pa.schema(
        [
            pa.field("vehicle_id", pa.string(), nullable=False),
            pa.field("time", TIMESTAMP, nullable=False),
            pa.field("latitude", pa.float64(), nullable=False),
            pa.field("longitude", pa.float64(), nullable=False),
            pa.field("speed", pa.float64(), nullable=False),
            pa.field("fuel_level", pa.float64()),
        ]
    ),
    event_time="time",
    sources={
        "vehicle_id": Source(("vehicle_id", "vehicle")),
        "time": Source(("time", "timestamp")),
    },
    event_id=("vehicle_id", "time"),
    rules=(
        _empty("vehicle_id"),
        *_POSITION,
        Rule("speed is outside 0 to 400", _outside("speed", 0, 400)),
        Rule("fuel_level is negative", pl.col("fuel_level") < 0),
    ),
)
"""Speed in km/h, fuel level in litres."""

SALES = Stream(
    name="sales",
    schema=pa.schema(
        [
            pa.field("item", pa.string(), nullable=False),
            pa.field("quantity", pa.int64(), nullable=False),
            pa.field("models", pa.list_(pa.string())),
            pa.field("time", TIMESTAMP, nullable=False),
            pa.field("price", pa.float64()),
            pa.field("invoice", pa.string()),
            pa.field("customer", pa.string()),
            pa.field("country", pa.string()),
        ]
    ),
    event_time="time",
    sources={
        "item": Source(("item", "StockCode")),
        "quantity": Source(("quantity", "Quantity")),
        "models": Source(("model", "models", "Description")),
        "time": Source(("time", "InvoiceDate", "timestamp")),
        "price": Source(("price", "UnitPrice")),
        "invoice": Source(("invoice", "InvoiceNo")),
        "customer": Source(("customer", "CustomerID")),
        "country": Source(("country", "Country")),
    },
    # No event id: an invoice may well list an item twice, at one moment, in one quantity.
    rules=(_empty("item"),),
)
"""Quantity is negative for returns; price is of one piece."""

STREAMS: dict[str, Stream] = {stream.name: stream for stream in (RIDE_POINTS, WEATHER, METRICS, TELEMETRY, SALES)}
