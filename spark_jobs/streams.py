"""The streams: what an event looks like, what makes it valid, and what makes it the same event twice."""

from dataclasses import dataclass
from datetime import timedelta

import polars as pl
import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Rule:
    """A validity rule: rows where `broken` is true go to quarantine with `reason`."""

    reason: str
    broken: pl.Expr


@dataclass(frozen=True)
class Stream:
    """One kind of event.

    Attributes:
        name: names the landing folder and the tables `events.<name>` and `quarantine.<name>`.
        schema: columns and Arrow types of the event table; a column that is not nullable must be there.
        event_time: the column with the event's time (UTC).
        event_id: columns that together identify an event; empty keeps every row.
        rules: further rules on the typed columns.
        duplicate_window: how far back, in event time, a second copy of an event is recognised.
        future_bound: how far past its file's arrival an event's time may lie.
    """

    name: str
    schema: pa.Schema
    event_time: str
    event_id: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    duplicate_window: timedelta = timedelta(days=1)
    future_bound: timedelta = timedelta(days=1)


def _outside(column: str, low: float, high: float) -> pl.Expr:
    return ~pl.col(column).is_between(low, high)


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
        Rule("ride_id is empty", pl.col("ride_id").str.strip_chars() == ""),
        Rule("latitude is outside -90 to 90", _outside("latitude", -90, 90)),
        Rule("longitude is outside -180 to 180", _outside("longitude", -180, 180)),
        Rule(f"ride_status is none of {', '.join(RIDE_STATUSES)}", ~pl.col("ride_status").is_in(RIDE_STATUSES)),
        Rule("point_idx is negative", pl.col("point_idx") < 0),
    ),
)

STREAMS: dict[str, Stream] = {stream.name: stream for stream in (RIDE_POINTS,)}
