"""Queries 0, 1, 2, 10, 13, 14, 21 and 22: each bid by itself, or with its row of a small table."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import BID, UNCOUNTED, reads, required, text, whole
from keyfold import Clock, KeyedJob, Lookup, Step
from keyfold.operators.joins import lookup_join

SIDE_INPUT = "side_input.csv"
_HOUR, _THOUSANDTHS = pl.col("dateTime").dt.hour(), pl.col("price") * 908
_HOT = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
_FLOAT = required("euro", pa.float64())


def mapped(name: str, more: dict[str, pl.Expr], fields: list[pa.Field], where: pl.Expr | None = None) -> KeyedJob:
    """A job that writes each bid, or those for which a condition holds, with more columns; it keeps no state."""

    def step(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        rows = events["bid"].with_columns(**more)
        return Step(state=state, output=rows if where is None else rows.filter(where))

    bids, key = reads("bid", *BID.names), pa.schema(whole("auction"))
    settings = {"step_decides_late": True, **UNCOUNTED}
    return KeyedJob.with_inputs(name, {"bid": bids}, ("auction",), key, pa.schema([*BID, *fields]), step, **settings)


Q0 = mapped("q0", {}, [])
Q1 = mapped("q1", {"euro": pl.col("price") * 0.908}, [_FLOAT])
Q2 = mapped("q2", {}, [], pl.col("auction") % 123 == 0)
Q10 = mapped(
    "q10",
    {"day": pl.col("dateTime").dt.strftime("%Y-%m-%d"), "minute": pl.col("dateTime").dt.strftime("%H:%M")},
    text("day", "minute"),
)
Q13 = lookup_join(
    "q13",
    ("bid", replace(reads("bid", *BID.names, key=pl.col("auction") % 10_000), conserved=True)),
    ("side", Lookup(SIDE_INPUT, pa.schema([*whole("key"), *text("value")]), ("key",))),
)
Q14 = mapped(
    "q14",
    {
        "euro": pl.col("price") * 0.908,
        "part": pl.when(_HOUR.is_between(8, 18))
        .then(pl.lit("dayTime"))
        .when((_HOUR <= 6) | (_HOUR >= 20))
        .then(pl.lit("nightTime"))
        .otherwise(pl.lit("otherTime")),
        "letters": pl.col("extra").str.count_matches("c", literal=True).cast(pl.Int64),
    },
    [_FLOAT, *text("part"), *whole("letters")],
    # By whole numbers: 0.908 is none of the numbers that a float can be.
    _THOUSANDTHS.is_between(1_000_000_000, 50_000_000_000, closed="none"),
)
Q21 = mapped(
    "q21",
    {
        "channel_id": pl.col("channel")
        .str.to_lowercase()
        .replace_strict(_HOT, default=pl.col("url").str.extract("(?:&|^)channel_id=([^&]*)"))
    },
    text("channel_id"),
    pl.col("channel_id").is_not_null(),
)
_PARTS = pl.col("url").str.split_exact("/", 5).struct
Q22 = mapped("q22", {f"dir{one}": _PARTS.field(f"field_{one + 2}") for one in (1, 2, 3)}, text("dir1", "dir2", "dir3"))
