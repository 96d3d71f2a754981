"""Interval join: join events of two inputs with the same key whose times are within a span of each other."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import EVENT_TIME
from keyfold.keyed.job.row_times import RowTimes
from keyfold.keyed.job.step import DEADLINE, Clock
from keyfold.operators.joins.sides import How, Side, sides_of
from keyfold.operators.joins.two_inputs import IS_NEW, Matches, join_job
from keyfold.operators.signatures import operator
from keyfold.times import as_duration


@operator()
def interval_join(
    name: str,
    left: Side,
    right: Side,
    key: str | Sequence[str],
    *,
    earliest: timedelta | str,
    latest: timedelta | str,
    how: How = "inner",
    **settings: Any,
) -> KeyedJob:
    """Make a job that joins each left row with the right rows whose time is `earliest` to `latest` after its own.

    Its table has the key, the columns of the left input, and those of the right one. With `left` and `outer`, the columns of a
    side without a match are NULL. A row at or behind the watermark at the start of the run is late.

    Args:
        name: name of the job.
        left, right: the inputs, with names where two are of one stream.
        key: columns of the join, which both inputs have.
        earliest, latest: bounds of right time minus left time, both inclusive, also as text (`"10m"`, `"-10m"`); `earliest` may
            be negative. Rows of any order that wait for each other have `earliest=-latest`.
        how: `inner`; `left` also writes left rows without a match, and `outer` those of both sides, when the watermark has
            passed all possible matches.
        settings: other settings of `KeyedJob`.

    Raises:
        Misconfigured: the span is empty, or the inputs do not fit together.

    Example:
        Payments within ten minutes after an order of the same card.

        >>> from datetime import UTC, datetime
        >>> import pyarrow as pa
        >>> from keyfold import Input, Stream, TestHarness
        >>> time = pa.timestamp("us", tz="UTC")
        >>> card = pa.field("card", pa.string(), nullable=False)
        >>> ordered = pa.schema([card, pa.field("ordered_at", time, nullable=False)])
        >>> paid = pa.schema([card, pa.field("paid_at", time, nullable=False)])
        >>> job = interval_join(
        ...     "paid_orders",
        ...     Input(Stream("orders", ordered, "ordered_at"), columns=ordered),
        ...     Input(Stream("payments", paid, "paid_at"), columns=paid),
        ...     "card", earliest="0m", latest="10m", how="left",
        ... )
        >>> noon, harness = datetime(2026, 1, 31, 12, tzinfo=UTC), TestHarness(job)
        >>> _ = harness.batch({
        ...     "orders": pl.DataFrame({"card": ["a", "b"], "ordered_at": [noon, noon]}),
        ...     "payments": pl.DataFrame({"card": ["a"], "paid_at": [noon + timedelta(minutes=4)]}),
        ... })
        >>> _ = harness.batch(advance_to=noon + timedelta(hours=1))
        >>> [(row["card"], row["paid_at"] is not None) for row in harness.written["paid_orders"].to_dicts()]
        [('a', True), ('b', False)]
    """
    earliest, latest = _span(f"job {name}: earliest", earliest), _span(f"job {name}: latest", latest)
    if earliest > latest:
        raise Misconfigured(
            f"job {name}: earliest ({earliest}) is after latest ({latest}), so nothing would match; give an earlier one"
        )
    sides = sides_of(name, key, left, right, how)
    # A row without a match depends on all rows of the other side that might match it, whichever side it is of.
    before, after = (max(bound, timedelta(0)) for bound in (max(-earliest, latest), max(latest, -earliest)))
    times = RowTimes(sides.time(how), pl.col(EVENT_TIME), pl.col(EVENT_TIME), before, after)
    return join_job(name, sides, how, partial(_matches, sides.key, earliest, latest), settings, times)


def _span(place: str, span: timedelta | str) -> timedelta:
    if isinstance(span, timedelta):
        return span
    return -as_duration(place, span[1:]) if str(span).startswith("-") else as_duration(place, span)


def _matches(
    key: tuple[str, ...], earliest: timedelta, latest: timedelta, left: pl.DataFrame, right: pl.DataFrame, clock: Clock
) -> Matches:
    """Match rows with a new one. Pairs of two older rows were written when the later one arrived."""
    # New left rows with all right rows, and old left rows with new right rows only: no pair is written twice.
    new_left, old_left = (np.flatnonzero(left[IS_NEW].to_numpy() == is_new) for is_new in (True, False))
    new_right = np.flatnonzero(right[IS_NEW].to_numpy())
    of_new = pairs_within(left[new_left], right, key, earliest, latest)
    of_old = pairs_within(left[old_left], right[new_right], key, earliest, latest)
    # The latest time of a match: `latest` after a left row, and `earliest` before a right row.
    return Matches(
        left.with_columns((pl.col(EVENT_TIME) + latest).alias(DEADLINE)),
        right.with_columns((pl.col(EVENT_TIME) - earliest).alias(DEADLINE)),
        np.concatenate([new_left[of_new[0]], old_left[of_old[0]]]),
        np.concatenate([of_new[1], new_right[of_old[1]]]),
    )


def pairs_within(
    left: pl.DataFrame, right: pl.DataFrame, key: tuple[str, ...], earliest: timedelta, latest: timedelta
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of left and right rows of one key whose times are within the span, pair by pair.

    The cost is that of sorting and of the returned pairs, and not of all pairs of a key.
    """
    if not left.height or not right.height:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # Keys become whole numbers, by their rank among the keys of both sides.
    codes = pl.concat([left.select(key), right.select(key)]).select(pl.struct(key).rank("dense").cast(pl.Int64))
    code = codes.to_series().to_numpy()
    left_code, right_code = code[: left.height], code[left.height :]
    left_time, right_time = (side[EVENT_TIME].to_physical().to_numpy() for side in (left, right))
    # Times by their rank among the right side's: a code and a rank fit into one whole number, which can be searched.
    times = np.unique(right_time)
    ranks = times.size + 1
    place = right_code * ranks + np.searchsorted(times, right_time)
    order = np.argsort(place, kind="stable")
    place = place[order]
    first, last = (left_time + int(span / timedelta(microseconds=1)) for span in (earliest, latest))
    begin = np.searchsorted(place, left_code * ranks + np.searchsorted(times, first, "left"), "left")
    end = np.searchsorted(place, left_code * ranks + np.searchsorted(times, last, "right"), "left")
    counts = end - begin
    rows = np.repeat(np.arange(left.height), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, order[np.repeat(begin, counts) + within]
