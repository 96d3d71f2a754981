"""As-of join: join each left row with the newest version of its key at or before its time.

A left row waits until the watermark has passed its time, since a newer version may arrive until then. State has the newest
version of each key that the watermark has passed, while it can still be used, and all versions ahead of the watermark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import polars as pl

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import EVENT_TIME, INPUT, STEP_DECIDES
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, InOneCall, Step
from keyfold.keyed.job.tables import Append
from keyfold.operators.joins.sides import Side, Sides, sides_of
from keyfold.operators.signatures import operator
from keyfold.times import as_duration

_VERSION = "#version"


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
    sides = sides_of(name, key, left, right, how, ("inner", "left"))
    # Only left rows are conserved: versions replace each other, and are in no output row of their own.
    inputs = {
        one: replace(declared, conserved=one == sides.left[0] and how == "left", final_at=STEP_DECIDES)
        for one, declared in sides.inputs.items()
    }
    waits, written = (pl.col(INPUT) == sides.left[0]).sum().cast(pl.Int64), pl.len()
    if how == "inner":
        waits = written = pl.lit(0)
    step = InOneCall(partial(_join, sides, within, how))
    return KeyedJob(
        name,
        inputs,
        sides.key,
        State(sides.state, events=waits),
        step,
        Append(sides.output, events=written),
        **settings,
    )


def _join(
    sides: Sides,
    within: timedelta,
    how: Literal["inner", "left"],
    state: pl.DataFrame,
    events: Mapping[str, pl.DataFrame],
    clock: Clock,
) -> Step:
    came, late = sides.late(sides.came(events), clock)
    known = pl.concat([state.drop(DEADLINE), came])
    left, versions = sides.side(known, sides.left), _in_order(sides, sides.side(known, sides.right))
    is_ready = pl.col(EVENT_TIME) <= clock.watermark
    ready, waiting = left.filter(is_ready), left.filter(~is_ready)
    versions_at = _newest_versions(ready, versions, sides.key, within)
    has_version = versions_at.is_not_null()
    pairs = sides.pairs(ready.filter(has_version), versions[versions_at.drop_nulls().to_numpy()])
    output = pl.concat([pairs, *sides.misses(ready.filter(~has_version), how)])
    kept = versions.with_columns((pl.col(EVENT_TIME) + within).alias(DEADLINE)).filter(
        # A version is superseded when the watermark has passed the next one.
        (pl.col(EVENT_TIME).shift(-1).over(sides.key) > clock.watermark).fill_null(value=True)
        & (pl.col(DEADLINE) > clock.watermark)
    )
    state = pl.concat([waiting.with_columns(pl.col(EVENT_TIME).alias(DEADLINE)), kept])
    return Step(state=state, output=output, late=late)


def _in_order(sides: Sides, versions: pl.DataFrame) -> pl.DataFrame:
    """Sort versions by time. Of several with the same key and time, keep the one whose values sort last."""
    values = [name for name in sides.right[1].schema.names if name not in (*sides.key, sides.right[1].event_time)]
    ordered = versions.sort(EVENT_TIME, *values, nulls_last=False)
    return ordered.unique([*sides.key, EVENT_TIME], keep="last", maintain_order=True)


def _newest_versions(rows: pl.DataFrame, versions: pl.DataFrame, key: tuple[str, ...], within: timedelta) -> pl.Series:
    """Return for each row the position of its version; NULL if there is none."""
    at = rows.select(*key, EVENT_TIME).with_row_index("#row").sort(EVENT_TIME)
    known = versions.select(*key, EVENT_TIME).with_row_index(_VERSION)
    # Both are in order of time. Polars cannot check that for each key, and would warn.
    matched = at.join_asof(
        known, on=EVENT_TIME, by=list(key), strategy="backward", tolerance=within, check_sortedness=False
    )
    return matched.sort("#row")[_VERSION]
