"""Queries 15 to 19: totals, distinct counts, and the last and highest bids of a key, without windows."""

from dataclasses import replace

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import BID, BIDS, TIME, of_bid, required, text, whole
from keyfold import Clock, KeyedJob, State, Step, Upsert
from keyfold.operators import Highest, Last, count, max, min, rows, sum, totals

_PRICE = pl.col("price")
_RANKS = {
    "low": _PRICE < 10_000,
    "middle": _PRICE.is_between(10_000, 1_000_000, closed="left"),
    "high": _PRICE >= 1_000_000,
}
_BY_RANK = {rank: count(condition) for rank, condition in _RANKS.items()}
_DAY = required("day", pa.date32())
_OF_DAY = BIDS.stream.derive(day=pl.col(TIME).dt.date())


def _distinct_counts(name: str, by: tuple[str, ...], fields: list[pa.Field], more: dict[str, pl.Expr]) -> KeyedJob:
    """Make a job that counts bids, distinct bidders and distinct auctions of a key, also by rank of price.

    A row of state is a bidder or an auction of the key, with its number of bids by rank.
    """
    is_bidder, is_auction = pl.col("bidder").is_not_null(), pl.col("auction").is_not_null()
    bids = pl.sum_horizontal(list(_RANKS))
    counts = {"bids": bids.filter(is_bidder).sum(), "bidders": is_bidder.sum(), "auctions": is_auction.sum()}
    for rank in _RANKS:
        has = pl.col(rank) > 0
        counts |= {f"{rank}_bids": pl.col(rank).filter(is_bidder).sum()}
        counts |= {f"{rank}_bidders": (is_bidder & has).sum(), f"{rank}_auctions": (is_auction & has).sum()}

    def distinct(rows: pl.DataFrame) -> pl.DataFrame:
        sums = [pl.col(TIME).max(), *(pl.col(rank).sum() for rank in _RANKS)]
        sides = [
            rows.filter(pl.col(side).is_not_null()).group_by(*by, side).agg(*sums) for side in ("bidder", "auction")
        ]
        return pl.concat(sides, how="diagonal").select(rows.columns)

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        pairs = distinct(pl.concat([state, events.select(state.columns)]))
        integers = {name: counted.cast(pl.Int64) for name, counted in counts.items()}
        return Step(state=pairs, output=pairs.group_by(by).agg(**more, **integers))

    keys = [BID.field(name) if name in BID.names else _DAY for name in by]
    rows = pa.schema(
        [*keys, *(pa.field(name, pa.int64()) for name in ("bidder", "auction")), *of_bid(TIME), *whole(*_RANKS)]
    )
    return KeyedJob(
        name,
        replace(
            BIDS,
            source=_OF_DAY.derive(**{rank: bids.value for rank, bids in _BY_RANK.items()}),
            columns=rows,
            combine=distinct,
            events=counts["bids"],
        ),
        key=by,
        state=State(rows, events=counts["bids"]),
        step=step,
        tables=Upsert(pa.schema([*keys, *fields, *whole(*counts)]), by, events=pl.lit(0)),
    )


_Q15 = _distinct_counts("q15", ("day",), [], {})
_Q16 = _distinct_counts("q16", ("channel", "day"), text("minute"), {"minute": pl.col(TIME).max().dt.strftime("%H:%M")})

_SUMS = {"least": min("price"), "greatest": max("price"), **_BY_RANK, "total": sum("price")}
_Q17 = totals(
    "q17",
    replace(BIDS, source=_OF_DAY),
    _SUMS,
    key=("auction", "day"),
    counted="bids",
    then={"average": pl.col("total") / pl.col("bids")},
    output=pa.schema([*whole("auction"), _DAY, *whole(*_SUMS, "bids"), required("average", pa.float64())]),
)
_Q18 = rows("q18", BIDS, keep=Last(), key=("bidder", "auction"))
_Q19 = rows("q19", BIDS, keep=Highest("price", n=10, ties=(TIME, "bidder")), key="auction")
JOBS = {15: (_Q15,), 16: (_Q16,), 17: (_Q17,), 18: (_Q18,), 19: (_Q19,)}
