"""Declare the three streams of Nexmark and the inputs of its queries."""

from datetime import timedelta
from functools import partial

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.events import LATEST
from keyfold import STEP_DECIDES, Input, Stream
from keyfold.columns import plain_columns
from keyfold.stream import TIMESTAMP

TIME = "dateTime"
WINDOW = timedelta(seconds=10)


required = partial(pa.field, nullable=False)
whole, text, times = (partial(plain_columns, kind, nullable=False) for kind in (pa.int64(), pa.string(), TIMESTAMP))
"""Make columns that are never NULL: `required` one of any type, the others some of integers, text or timestamps."""

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


def reads(stream: str, *columns: str, **derived: pl.Expr) -> Input:
    """Return an input with columns of a stream and derived integers; its events need not be in an output."""
    schema = STREAMS[stream].schema
    fields = [*(schema.field(name) for name in columns), *whole(*derived)]
    return Input(
        STREAMS[stream].derive(**derived),
        delay=LATEST,
        final_at=STEP_DECIDES,
        columns=pa.schema(fields),
        conserved=False,
    )


BIDS = Input(STREAMS["bid"], delay=LATEST, final_at=STEP_DECIDES, columns=BID)
"""The input of jobs that read bids only."""

UNCOUNTED = pl.lit(0)
"""The events of state and tables of jobs whose events need not be in an output."""
