"""Queries 5, 7, 8, 11 and 12: windows by event time and by arrival, and sessions.

Queries 5 and 7 ask for a maximum over all keys. A first job computes the maxima of eight shards, and a second job their maximum.
"""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import BIDS, TIME, UNCOUNTED, WINDOW, of_bid, reads, text, times, whole
from keyfold import Clock, Input, KeyedJob, Step
from keyfold.operators import count, sessions, window_join, windows
from keyfold.stream import INGESTED_AT
from keyfold.times import period_start


def _highest(name: str, first: KeyedJob, by: str) -> KeyedJob:
    """Make the second job of a query: of the rows of the first, it keeps those with the greatest value in each window."""
    columns = pa.schema([field for field in first.output if field.name not in ("shard", "n_events")])

    def step(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        rows = pl.concat([state, events["shards"].with_columns(deadline="window_end")])
        rows = rows.filter(pl.col(by) == pl.col(by).max().over("window_end"))
        is_over = pl.col("window_end") <= clock.watermark
        return Step(state=rows.filter(~is_over), output=rows.filter(is_over).drop("deadline"))

    shards = Input(first.table(), columns, "window_end", conserved=False)
    state = pa.schema([*columns, *times("deadline")])
    return KeyedJob.with_inputs(name, {"shards": shards}, ("window_end",), state, columns, step, **UNCOUNTED)


_Q5_SHARDS = windows(
    "q5_shards",
    {"bids": count()},
    key=("shard",),
    by=("auction",),
    length=WINDOW,
    every=WINDOW / 5,
    most="bids",
    output=pa.schema([*whole("shard", "auction"), *times("window_end"), *whole("bids", "n_events")]),
    # Ids of hot auctions are multiples of a hundred.
    derived={"shard": pl.col("auction") // 100 % 8},
    **BIDS,
)
_Q5 = (_Q5_SHARDS, _highest("q5", _Q5_SHARDS, "bids"))

_BID = ("auction", "bidder", "price", "extra")
_Q7_SHARDS = windows(
    "q7_shards",
    {},
    key=("shard",),
    by=(*_BID, "bidTime"),
    length=WINDOW,
    most="price",
    output=pa.schema([*whole("shard"), *times("window_end", "bidTime"), *of_bid(*_BID), *whole("n_events")]),
    derived={"shard": pl.col("bidder") % 8, "bidTime": pl.col(TIME)},
    **BIDS,
)
_Q7 = (_Q7_SHARDS, _highest("q7", _Q7_SHARDS, "price"))

_PEOPLE = replace(
    reads("person"),
    events=pa.schema([*whole("id"), *text("name"), *times(TIME, "start")]),
    derived={"start": period_start(pl.col(TIME), WINDOW)},
)
_SELLERS = reads("auction", TIME, id=pl.col("seller"))
_Q8 = window_join("q8", ("person", _PEOPLE), ("auction", _SELLERS), ("id",), length=WINDOW, how="semi")

_COUNTS = pa.schema([*whole("bidder", "bids"), *times("window_start", "window_end")])
_Q11 = sessions("q11", {}, key=("bidder",), gap=WINDOW, counted="bids", output=_COUNTS, **BIDS)
_Q12 = windows(
    "q12",
    {},
    key=("bidder",),
    length=WINDOW,
    counted="bids",
    output=_COUNTS.remove(_COUNTS.get_field_index("window_start")),
    time_from=INGESTED_AT,
    **BIDS,
)
JOBS = {5: _Q5, 7: _Q7, 8: (_Q8,), 11: (_Q11,), 12: (_Q12,)}
