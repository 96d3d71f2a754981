"""Queries 0, 1, 2, 10, 13, 14, 21 and 22: map or filter bids, or join them with a small table."""

from dataclasses import replace

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import BID, BIDS, TIME, reads, required, text, whole
from keyfold import Append, KeyedJob, Lookup, Step
from keyfold.operators import lookup_join

SIDE_INPUT = "side_input.csv"
_HOT = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
_HOUR, _EURO, _FLOAT = pl.col(TIME).dt.hour(), {"euro": pl.col("price") * 0.908}, required("euro", pa.float64())
_NIGHT = pl.when((_HOUR <= 6) | (_HOUR >= 20)).then(pl.lit("nightTime")).otherwise(pl.lit("otherTime"))
_PART = {"part": pl.when(_HOUR.is_between(8, 18)).then(pl.lit("dayTime")).otherwise(_NIGHT)}
_LETTERS = {"letters": pl.col("extra").str.count_matches("c", literal=True).cast(pl.Int64)}
_IN_URL = pl.col("url").str.extract("(?:&|^)channel_id=([^&]*)")
_CHANNEL_ID = pl.col("channel").str.to_lowercase().replace_strict(_HOT, default=_IN_URL)
_DAY, _MINUTE = (pl.col(TIME).dt.strftime(form) for form in ("%Y-%m-%d", "%H:%M"))
_PARTS = pl.col("url").str.split_exact("/", 5).struct


def mapped(number: int, more: dict[str, pl.Expr], fields: list[pa.Field], where: pl.Expr | None = None) -> KeyedJob:
    """Make a job without state that writes bids with more columns, all or those that fulfil a condition."""
    rows = pa.schema([*BID, *fields])
    return KeyedJob(
        f"q{number}",
        replace(BIDS, where=where, columns=rows, derive=more),
        key="auction",
        state=pa.schema(whole("auction")),
        step=lambda state, events, clock: Step(state=state, output=events),
        tables=Append(rows),
    )


_MAPPED = (
    mapped(0, {}, []),
    mapped(1, _EURO, [_FLOAT]),
    mapped(2, {}, [], pl.col("auction") % 123 == 0),
    mapped(10, {"day": _DAY, "minute": _MINUTE}, text("day", "minute")),
    mapped(
        14,
        {**_EURO, **_PART, **_LETTERS},
        [_FLOAT, *text("part"), *whole("letters")],
        # In integers, since 0.908 has no exact float.
        (pl.col("price") * 908).is_between(1_000_000_000, 50_000_000_000, closed="none"),
    ),
    mapped(21, {"channel_id": _CHANNEL_ID}, text("channel_id"), _CHANNEL_ID.is_not_null()),
    mapped(22, {f"dir{one}": _PARTS.field(f"field_{one + 2}") for one in (1, 2, 3)}, text("dir1", "dir2", "dir3")),
)
_WITH_A_ROW = lookup_join(
    "q13",
    replace(reads("bid", *BID.names, key=pl.col("auction") % 10_000), conserved=True),
    ("side", Lookup(SIDE_INPUT, pa.schema([*whole("key"), *text("value")]), ("key",))),
)
JOBS = {int(job.name[1:]): (job,) for job in (*_MAPPED, _WITH_A_ROW)}
