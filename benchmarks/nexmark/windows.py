"""Queries 5, 7, 8, 11 and 12: windows of event time, of arrival, and sessions.

Of 5 and 7, which ask for a maximum over all keys, a first job has the maxima of eight shards, and a second one that of them.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import TIME, UNCOUNTED, WINDOW, bid_job, of_bid, reads, text, times, whole
from keyfold import Clock, Input, JobTable, KeyedJob, Step
from keyfold.operators.periods import period_start
from keyfold.stream import INGESTED_AT
from keyfold.times import micros

_EVERY = WINDOW / 5
_ONE = pl.lit(1, pl.Int64)
_END = period_start(pl.col(TIME), WINDOW) + WINDOW
_COUNTED: dict[str, Any] = {"event_count": pl.col("bids").sum(), "state_events": pl.col("bids").sum()}
_SHARDED: dict[str, Any] = {"event_count": pl.lit(0), **UNCOUNTED}


def _highest(name: str, first: KeyedJob, by: str) -> KeyedJob:
    """The rows of each window with the greatest value, of those that a first job has of its shards."""

    def step(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        rows = pl.concat([state, events["shards"].with_columns(deadline="end")])
        rows = rows.filter(pl.col(by) == pl.col(by).max().over("end"))
        is_over = pl.col("end") <= clock.watermark
        return Step(state=rows.filter(~is_over), output=rows.filter(is_over).drop("deadline"))

    shards = Input(JobTable.of(first), first.output, "end", conserved=False)
    state = pa.schema([*first.output, *times("deadline")])
    return KeyedJob.with_inputs(name, {"shards": shards}, ("end",), state, first.output, step, **UNCOUNTED)


def _panes(rows: pl.DataFrame) -> pl.DataFrame:
    """Bids an auction and span of two seconds, each with the time of the newest of them."""
    return rows.group_by("shard", "auction", "pane").agg(pl.col(TIME).max(), pl.col("bids").sum())


def _most_bids(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    late = events[TIME] <= clock.late_watermark
    came = events.filter(~late).with_columns(deadline=pl.col("pane") + _EVERY)
    panes = pl.concat([state, came.select(state.columns)])
    panes = panes.group_by("shard", "auction", "pane", "deadline").agg(pl.col("bids").sum())
    # The ends of the windows that hold a span, from the first that is not written yet up to now.
    last = pl.min_horizontal(pl.col("pane") + WINDOW, pl.lit(clock.watermark)).to_physical()
    ends = pl.int_ranges(pl.col("deadline").to_physical(), last + 1, micros(_EVERY))
    due = panes.filter(pl.col("deadline") <= clock.watermark).with_columns(end=ends).explode("end")
    counts = due.group_by("shard", "end", "auction").agg(pl.col("bids").sum())
    most = counts.filter(pl.col("bids") == pl.col("bids").max().over("shard", "end"))
    following = period_start(pl.lit(clock.watermark), _EVERY) + _EVERY
    open_panes = panes.with_columns(deadline=pl.max_horizontal("deadline", following))
    return Step(
        state=open_panes.filter(pl.col("deadline") <= pl.col("pane") + WINDOW).select(state.columns),
        output=most.select(pl.col("end").cast(pl.Datetime("us", "UTC")), "auction", "bids"),
        late=events.filter(late),
    )


_Q5_SHARDS = bid_job(
    "q5_shards",
    ("shard",),
    [*whole("shard"), *of_bid("auction", TIME), *times("pane"), *whole("bids")],
    _most_bids,
    # The hot auctions are those that a hundred divides.
    derived={"shard": pl.col("auction") // 100 % 8, "pane": period_start(pl.col(TIME), _EVERY), "bids": _ONE},
    state=pa.schema([*whole("shard", "auction"), *times("pane"), *whole("bids"), *times("deadline")]),
    output=pa.schema([*times("end"), *whole("auction", "bids")]),
    combine=_panes,
    step_decides_late=True,
    **_SHARDED,
)
Q5 = (_Q5_SHARDS, _highest("q5", _Q5_SHARDS, "bids"))


def _dearest(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("price") == pl.col("price").max().over("shard", "end"))


def _dearest_bids(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    dearest = _dearest(pl.concat([state, events.with_columns(deadline="end").select(state.columns)]))
    is_over = pl.col("deadline") <= clock.watermark
    return Step(state=dearest.filter(~is_over), output=dearest.filter(is_over).drop("shard", "deadline"))


_DEAREST = [*times("end"), *of_bid("auction", "bidder", "price", TIME, "extra")]
_Q7_SHARDS = bid_job(
    "q7_shards",
    ("shard", "end"),
    [*whole("shard"), *_DEAREST],
    _dearest_bids,
    derived={"shard": pl.col("bidder") % 8, "end": _END},
    state=pa.schema([*whole("shard"), *_DEAREST, *times("deadline")]),
    output=pa.schema(_DEAREST),
    combine=_dearest,
    **_SHARDED,
)
Q7 = (_Q7_SHARDS, _highest("q7", _Q7_SHARDS, "price"))


def _registered_and_opened(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
    people = events["person"].select("id", "name", opened=pl.lit(value=False), deadline=_END)
    sellers = events["auction"].select("id", name=pl.lit(None, pl.String), opened=pl.lit(value=True), deadline=_END)
    windows = pl.concat([state, people, sellers]).group_by("id", "deadline")
    windows = windows.agg(pl.col("name").drop_nulls().first(), pl.col("opened").any()).select(state.columns)
    is_over = pl.col("deadline") <= clock.watermark
    both = windows.filter(is_over & pl.col("opened") & pl.col("name").is_not_null())
    return Step(state=windows.filter(~is_over), output=both.select("id", "name", start=pl.col("deadline") - WINDOW))


Q8 = KeyedJob.with_inputs(
    "q8",
    {"person": reads("person", "id", "name", TIME), "auction": reads("auction", TIME, id=pl.col("seller"))},
    ("id",),
    pa.schema([*whole("id"), ("name", pa.string()), ("opened", pa.bool_()), *times("deadline")]),
    pa.schema([*whole("id"), *text("name"), *times("start")]),
    _registered_and_opened,
    **UNCOUNTED,
)


def _close_bids(rows: pl.DataFrame) -> pl.DataFrame:
    """Bids of a bidder in ten seconds, which no gap can part, as one row; `dateTime` is the last of them."""
    found = rows.group_by("bidder", span=pl.col(TIME).dt.truncate(WINDOW)).agg(
        pl.col(TIME).max(), pl.col("start").min(), pl.col("bids").sum()
    )
    return found.drop("span")


def _sessions(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    spans = pl.concat([state.drop("deadline"), events.select("bidder", TIME, "start", "bids")]).sort("bidder", "start")
    gap = pl.col("start") - pl.col(TIME).cum_max().shift().over("bidder")
    sessions = spans.group_by("bidder", session=(gap > WINDOW).fill_null(value=True).cum_sum())
    sessions = sessions.agg(pl.col(TIME).max(), pl.col("start").min(), pl.col("bids").sum()).drop("session")
    sessions = sessions.with_columns(deadline=pl.col(TIME) + WINDOW)
    is_over = pl.col("deadline") <= clock.watermark
    output = sessions.filter(is_over).select("bidder", "bids", "start", end="deadline")
    return Step(state=sessions.filter(~is_over), output=output)


Q11 = bid_job(
    "q11",
    ("bidder",),
    [*of_bid("bidder", TIME), *times("start"), *whole("bids")],
    _sessions,
    derived={"start": pl.col(TIME), "bids": _ONE},
    state=pa.schema([*of_bid("bidder", TIME), *times("start"), *whole("bids"), *times("deadline")]),
    output=pa.schema([*whole("bidder", "bids"), *times("start", "end")]),
    combine=_close_bids,
    output_events=pl.col("bids").sum(),
    **_COUNTED,
)


def _counts(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("bidder", "end").agg(pl.col(TIME).max(), pl.col("bids").sum())


def _arrivals(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    came = events.select("bidder", "end", "bids", deadline="end")
    counts = pl.concat([state, came]).group_by("bidder", "end", "deadline").agg(pl.col("bids").sum())
    is_over = pl.col("deadline") <= clock.watermark
    return Step(state=counts.filter(~is_over).select(state.columns), output=counts.filter(is_over).drop("deadline"))


Q12 = bid_job(
    "q12",
    ("bidder", "end"),
    [*of_bid("bidder", TIME), *times("end"), *whole("bids")],
    _arrivals,
    time_from=INGESTED_AT,
    derived={"end": _END, "bids": _ONE},
    state=pa.schema([*whole("bidder"), *times("end"), *whole("bids"), *times("deadline")]),
    output=pa.schema([*whole("bidder"), *times("end"), *whole("bids")]),
    combine=_counts,
    output_events=pl.col("bids").sum(),
    **_COUNTED,
)
