"""Queries 15 to 19: totals, distinct counts, the last and the highest bids of a key, which no window ends."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import BID, TIME, bid_job, of_bid, text, whole
from keyfold import Clock, KeyedJob, Step
from keyfold.operators.ordering import in_order

_RANKS = ("low", "middle", "high")
_PRICE = pl.col("price")
_RANKED: dict[str, pl.Expr] = {
    "low": (_PRICE < 10_000).cast(pl.Int64),
    "middle": _PRICE.is_between(10_000, 1_000_000, closed="left").cast(pl.Int64),
    "high": (_PRICE >= 1_000_000).cast(pl.Int64),
}
_DAY = pa.field("day", pa.date32(), nullable=False)
_DAY_OF = {"day": pl.col(TIME).dt.date()}
_BIDS = pl.sum_horizontal(_RANKS)


def _distinct_counts(name: str, by: tuple[str, ...], fields: list[pa.Field], more: dict[str, pl.Expr]) -> KeyedJob:
    """Bids, distinct bidders and distinct auctions of a key, each also by rank of price.

    A row of state is a bidder of the key, or an auction of it, with its bids by rank.
    """

    def distinct(rows: pl.DataFrame) -> pl.DataFrame:
        sums = [pl.col(TIME).max(), *(pl.col(rank).sum() for rank in _RANKS)]
        sides = [rows.filter(pl.col(one).is_not_null()).group_by(*by, one).agg(*sums) for one in ("bidder", "auction")]
        return pl.concat(sides, how="diagonal").select(rows.columns)

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        found = distinct(pl.concat([state, events.select(state.columns)]))
        is_bidder, is_auction = pl.col("bidder").is_not_null(), pl.col("auction").is_not_null()
        counts = {"bids": _BIDS.filter(is_bidder).sum(), "bidders": is_bidder.sum(), "auctions": is_auction.sum()}
        for rank in _RANKS:
            has = pl.col(rank) > 0
            counts |= {f"{rank}_bids": pl.col(rank).filter(is_bidder).sum()}
            counts |= {f"{rank}_bidders": (is_bidder & has).sum(), f"{rank}_auctions": (is_auction & has).sum()}
        integers = {one: counted.cast(pl.Int64) for one, counted in counts.items()}
        return Step(state=found, output=found.group_by(by).agg(**more, **integers))

    keys = [BID.field(one) if one in BID.names else _DAY for one in by]
    ids = [pa.field(one, pa.int64()) for one in ("bidder", "auction")]
    rows = [*keys, *ids, *of_bid(TIME), *whole(*_RANKS)]
    whats = [
        f"{prefix}{what}"
        for prefix in ("", *(f"{rank}_" for rank in _RANKS))
        for what in ("bids", "bidders", "auctions")
    ]
    bids = _BIDS.filter(pl.col("bidder").is_not_null()).sum()
    return _total(
        name, by, rows, step, {**_DAY_OF, **_RANKED}, rows, [*keys, *fields, *whole(*whats)], by, bids, combine=distinct
    )


def _total(
    name: str,
    key: tuple[str, ...],
    events: list[pa.Field],
    step: Any,
    derived: dict[str, pl.Expr],
    state: list[pa.Field],
    output: list[pa.Field],
    output_key: tuple[str, ...],
    counted: pl.Expr,
    **settings: Any,
) -> KeyedJob:
    """A job whose keys are never closed: no bid is late, and a row is replaced when it changes."""
    more = {"output_mode": "upsert", "output_key": output_key, "step_decides_late": True, "output_events": pl.lit(0)}
    more |= {"event_count": counted, "state_events": counted, "derived": derived}
    return bid_job(name, key, events, step, state=pa.schema(state), output=pa.schema(output), **{**more, **settings})


Q15 = _distinct_counts("q15", ("day",), [], {})
Q16 = _distinct_counts("q16", ("channel", "day"), text("minute"), {"minute": pl.col(TIME).max().dt.strftime("%H:%M")})


def _sums(rows: pl.DataFrame) -> pl.DataFrame:
    """Totals of an auction and day, as one row."""
    least_and_greatest = (pl.col(TIME).max(), pl.col("least").min(), pl.col("greatest").max())
    sums = rows.group_by("auction", "day").agg(*least_and_greatest, *(pl.col(one).sum() for one in (*_RANKS, "total")))
    return sums.select(rows.columns)


def _auction_days(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    sums = _sums(pl.concat([state, events]))
    output = sums.with_columns(bids=_BIDS, average=pl.col("total") / _BIDS).drop(TIME)
    return Step(state=sums, output=output)


_AUCTION_DAY = [*whole("auction"), _DAY, *whole("least", "greatest", *_RANKS, "total")]
_AUCTION_DAYS = [*_AUCTION_DAY[:2], *of_bid(TIME), *_AUCTION_DAY[2:]]
Q17 = _total(
    "q17",
    ("auction", "day"),
    _AUCTION_DAYS,
    _auction_days,
    {**_DAY_OF, **_RANKED, "least": _PRICE, "greatest": _PRICE, "total": _PRICE},
    _AUCTION_DAYS,
    [*_AUCTION_DAY, *whole("bids"), pa.field("average", pa.float64(), nullable=False)],
    ("auction", "day"),
    _BIDS.sum(),
    combine=_sums,
)

_PAIR = ("bidder", "auction")


def _last(rows: pl.DataFrame) -> pl.DataFrame:
    """The last bid of each bidder on each auction, with how many it stands for."""
    ordered = in_order(rows, _PAIR, TIME)
    bids = np.add.reduceat(ordered.events["bids"].to_numpy(), ordered.starts) if rows.height else []
    return ordered.events[ordered.lasts].with_columns(pl.Series("bids", bids, pl.Int64))


def _last_bids(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    known = state.with_columns(is_known=pl.lit(value=True))
    last = _last(pl.concat([known, events.with_columns(is_known=pl.lit(value=False))], how="diagonal"))
    return Step(state=last.select(state.columns), output=last.filter(~pl.col("is_known")).select(BID.names))


Q18 = _total(
    "q18",
    _PAIR,
    [*BID, *whole("bids")],
    _last_bids,
    {"bids": pl.lit(1, pl.Int64)},
    [*of_bid(*_PAIR, TIME), *whole("bids")],
    [*BID],
    _PAIR,
    pl.col("bids").sum(),
    combine=_last,
)

_TOP = 10


def _highest(rows: pl.DataFrame) -> pl.DataFrame:
    """The ten highest bids of each auction, those of one price by time, with their ranks."""
    order = rows.select(pl.arg_sort_by("auction", "price", TIME, "bidder", descending=[False, True, False, False]))
    ranked = rows[order.to_series()].with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("auction"))
    return ranked.filter(pl.col("rank") <= _TOP)


def _top_bids(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    before = state.with_columns(before="rank").drop("rank")
    highest = _highest(pl.concat([before, events], how="diagonal"))
    changed = highest.filter(pl.col("before").is_null() | (pl.col("before") != pl.col("rank")))
    return Step(state=highest.select(state.columns), output=changed.select(state.columns))


_RANKED_BID = [*BID, *whole("rank")]
Q19 = _total(
    "q19",
    ("auction",),
    [*BID],
    _top_bids,
    {},
    _RANKED_BID,
    _RANKED_BID,
    ("auction", "rank"),
    pl.lit(0),
    combine=lambda rows: _highest(rows).drop("rank"),
)
