"""As-of join: join each left row with the newest version of its key at or before its time.

A left row waits until the watermark has passed its time, since a newer version may arrive until then. State has the newest
version of each key that the watermark has passed, while it can still be used, and all versions ahead of the watermark.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import polars as pl

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import EVENT_TIME
from keyfold.keyed.job.row_times import RowTimes
from keyfold.keyed.job.step import DEADLINE, Clock
from keyfold.operators.joins.sides import Side, sides_of
from keyfold.operators.joins.two_inputs import Matches, join_job
from keyfold.operators.signatures import operator
from keyfold.times import as_duration


@operator()
def as_of_join(
    name: str,
    left: Side,
    right: Side,
    key: str | Sequence[str],
    *,
    within: timedelta | str,
    how: Literal["inner", "left"] = "left",
    **settings: Any,
) -> KeyedJob:
    """Make a job that joins each left row with the newest right row at or before its time, no older than `within`.

    Each left row is written once, when the watermark has passed its time; with `inner` only if there is a version. Of several
    versions with the same key and time, the one whose values sort last is used. A row at or behind the watermark at the start
    of the run is late; a late version changes no written rows.

    Args:
        name: name of the job.
        left, right: the inputs, with names where two are of one stream; `right` has the versions.
        key: columns of the join, which both inputs have.
        within: the greatest age of a version; older versions are removed from state.
        how: `left`, or `inner`.
        settings: other settings of `KeyedJob`.

    Raises:
        Misconfigured: `within` is negative, or the inputs do not fit together.

    Example:
        Sales with the price at their time.

        >>> from datetime import UTC, datetime
        >>> import pyarrow as pa
        >>> from keyfold import Input, Stream, TestHarness
        >>> time = pa.timestamp("us", tz="UTC")
        >>> item = pa.field("item", pa.string(), nullable=False)
        >>> sold = pa.schema([item, pa.field("sold_at", time, nullable=False)])
        >>> price = pa.schema([item, pa.field("since", time, nullable=False), ("price", pa.int64())])
        >>> job = as_of_join(
        ...     "priced_sales",
        ...     Input(Stream("sales", sold, "sold_at"), columns=sold),
        ...     Input(Stream("prices", price, "since"), columns=price),
        ...     "item", within="30d",
        ... )
        >>> noon, hour, harness = datetime(2026, 1, 31, 12, tzinfo=UTC), timedelta(hours=1), TestHarness(job)
        >>> _ = harness.batch({
        ...     "sales": pl.DataFrame({"item": ["tea", "tea"], "sold_at": [noon, noon + 2 * hour]}),
        ...     "prices": pl.DataFrame({"item": ["tea", "tea"], "since": [noon - hour, noon + hour], "price": [3, 4]}),
        ... })
        >>> _ = harness.batch(advance_to=noon + 3 * hour)
        >>> harness.written["priced_sales"]["price"].to_list()
        [3, 4]
    """
    within = as_duration(f"job {name}: within, the greatest age of a version,", within)
    sides = sides_of(name, key, left, right, how)
    values = [column for column in sides.right[1].schema.names if column not in (*sides.key, sides.right[1].event_time)]
    rule = partial(_matches, sides.key, values, within)
    # Only left rows are conserved: versions replace each other, and are in no output row of their own.
    # Versions wait in state until they are superseded, or too old.
    times = RowTimes(sides.time(how), pl.col(EVENT_TIME), pl.col(EVENT_TIME), before=within, lateness=within)
    return join_job(name, sides, how, rule, settings, times, writes_left_once=how == "left")


def _matches(
    key: tuple[str, ...],
    values: Sequence[str],
    within: timedelta,
    left: pl.DataFrame,
    right: pl.DataFrame,
    clock: Clock,
) -> Matches:
    """Match the left rows that the watermark has passed with the newest version at their time."""
    # Of several versions with the same key and time, the one whose values sort last.
    versions = right.sort(EVENT_TIME, *values, nulls_last=False)
    versions = versions.unique([*key, EVENT_TIME], keep="last", maintain_order=True)
    # A version is superseded when the watermark has passed the next one.
    following = pl.col(EVENT_TIME).shift(-1).over(key)
    versions = versions.with_columns(pl.min_horizontal(pl.col(EVENT_TIME) + within, following).alias(DEADLINE))
    at = left.select(*key, EVENT_TIME).with_row_index("#left").filter(pl.col(EVENT_TIME) <= clock.watermark)
    # Both are in order of time. Polars cannot check that for each key, and would warn.
    pairs = at.sort(EVENT_TIME).join_asof(
        versions.select(*key, EVENT_TIME).with_row_index("#right"),
        on=EVENT_TIME,
        by=list(key),
        strategy="backward",
        tolerance=within,
        check_sortedness=False,
    )
    pairs = pairs.drop_nulls("#right").sort("#left")
    left = left.with_columns(pl.col(EVENT_TIME).alias(DEADLINE))
    return Matches(left, versions, pairs["#left"].to_numpy(), pairs["#right"].to_numpy())
