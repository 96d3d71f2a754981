"""Queries 5, 7, 8, 11 and 12: windows by event time and by arrival, and sessions.

Queries 5 and 7 ask for a maximum over all keys. A first job computes the maxima of eight shards, and a second job their maximum.
"""

from dataclasses import replace

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import BIDS, TIME, UNCOUNTED, WINDOW, of_bid, reads, text, times, whole
from keyfold import STEP_DECIDES, Append, Clock, Input, KeyedJob, State, Step
from keyfold.operators import count, sessions, window_join, windows
from keyfold.stream import INGESTED_AT
from keyfold.times import period_start


def _highest(name: str, first: KeyedJob, by: str) -> KeyedJob:
    """Make the second job of a query: of the rows of the first, it keeps those with the greatest value in each window."""
    columns = pa.schema([field for field in first.main.schema if field.name not in ("shard", "n_events")])

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        rows = pl.concat([state, events.with_columns(deadline="window_end")])
        rows = rows.filter(pl.col(by) == pl.col(by).max().over("window_end"))
        is_over = pl.col("window_end") <= clock.watermark
        return Step(state=rows.filter(~is_over), output=rows.filter(is_over).drop("deadline"))

    shards = Input(first.table(), "window_end", columns=columns, final_at=STEP_DECIDES, conserved=False)
    state = State(pa.schema([*columns, *times("deadline")]), events=UNCOUNTED)
    return KeyedJob(name, shards, "window_end", state, step, Append(columns, events=UNCOUNTED))


_Q5_SHARDS = windows(
    "q5_shards",
    # Ids of hot auctions are multiples of a hundred.
    replace(BIDS, source=BIDS.stream.derive(shard=pl.col("auction") // 100 % 8)),
    {"bids": count()},
    key=("shard",),
    by=("auction",),
    length=WINDOW,
    every=WINDOW / 5,
    keep_max="bids",
    output=pa.schema([*whole("shard", "auction"), *times("window_end"), *whole("bids", "n_events")]),
)
_Q5 = (_Q5_SHARDS, _highest("q5", _Q5_SHARDS, "bids"))

_BID = ("auction", "bidder", "price", "extra")
_Q7_SHARDS = windows(
    "q7_shards",
    replace(BIDS, source=BIDS.stream.derive(shard=pl.col("bidder") % 8, bidTime=pl.col(TIME))),
    {},
    key=("shard",),
    by=(*_BID, "bidTime"),
    length=WINDOW,
    keep_max="price",
    output=pa.schema([*whole("shard"), *times("window_end", "bidTime"), *of_bid(*_BID), *whole("n_events")]),
)
_Q7 = (_Q7_SHARDS, _highest("q7", _Q7_SHARDS, "price"))

_PEOPLE = replace(
    reads("person", start=period_start(pl.col(TIME), WINDOW)),
    columns=pa.schema([*whole("id"), *text("name"), *times(TIME, "start")]),
)
_SELLERS = reads("auction", TIME, id=pl.col("seller"))
_Q8 = window_join("q8", ("person", _PEOPLE), ("auction", _SELLERS), ("id",), length=WINDOW, how="semi")

_COUNTS = pa.schema([*whole("bidder", "bids"), *times("window_start", "window_end")])
_Q11 = sessions("q11", BIDS, {}, key="bidder", gap=WINDOW, counted="bids", output=_COUNTS)
_Q12 = windows(
    "q12",
    replace(BIDS, time_from=INGESTED_AT),
    {},
    key=("bidder",),
    length=WINDOW,
    counted="bids",
    output=_COUNTS.remove(_COUNTS.get_field_index("window_start")),
)
JOBS = {5: _Q5, 7: _Q7, 8: (_Q8,), 11: (_Q11,), 12: (_Q12,)}
