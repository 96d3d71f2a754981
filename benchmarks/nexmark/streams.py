"""Declare the three streams of Nexmark and the inputs of its queries."""

from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.events import LATEST
from keyfold import Input, Stream
from keyfold.stream import TIMESTAMP

TIME = "dateTime"
WINDOW = timedelta(seconds=10)


def required(name: str, kind: pa.DataType) -> pa.Field:
    """Return a column that is never NULL."""
    return pa.field(name, kind, nullable=False)


def whole(*names: str) -> list[pa.Field]:
    """Return integer columns that are never NULL."""
    return [required(name, pa.int64()) for name in names]


def text(*names: str) -> list[pa.Field]:
    """Return text columns that are never NULL."""
    return [required(name, pa.string()) for name in names]


def times(*names: str) -> list[pa.Field]:
    """Return timestamp columns that are never NULL."""
    return [required(name, TIMESTAMP) for name in names]


_ITEM = [*text("itemName", "description"), *whole("initialBid", "reserve"), *times(TIME, "expires")]
_PERSON = text("name", "emailAddress", "creditCard", "city", "state")
PERSON = pa.schema([*whole("id"), *_PERSON, *times(TIME), *text("extra")])
AUCTION = pa.schema([*whole("id"), *_ITEM, *whole("seller", "category"), *text("extra")])
BID = pa.schema([*whole("auction", "bidder", "price"), *text("channel", "url"), *times(TIME), *text("extra")])
_SCHEMAS = {"person": PERSON, "auction": AUCTION, "bid": BID}
STREAMS = {name: Stream(name, schema, event_time=TIME) for name, schema in _SCHEMAS.items()}


def of_bid(*names: str) -> list[pa.Field]:
    """Return columns of bids."""
    return [BID.field(name) for name in names]


def reads(stream: str, *columns: str, where: pl.Expr | None = None, **derived: pl.Expr) -> Input:
    """Return an input with columns of a stream and derived integers; its events need not be in an output."""
    schema = STREAMS[stream].schema
    fields = [*(schema.field(name) for name in columns), *whole(*derived)]
    return Input(STREAMS[stream], pa.schema(fields), TIME, LATEST, derived=derived, conserved=False, where=where)


BIDS: dict[str, Any] = {"stream": STREAMS["bid"], "event_time": TIME, "watermark_delay": LATEST}
"""Settings of jobs that read bids only."""

UNCOUNTED: dict[str, Any] = {"output_events": pl.lit(0), "state_events": pl.lit(0)}
"""Settings of jobs whose events need not be in an output."""
