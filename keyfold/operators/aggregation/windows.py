"""Make jobs that aggregate the events of each key by tumbling or hopping windows of event time."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.operators.aggregation.aggregates import COUNTED, Aggregate, Aggregates, counting_job, newest
from keyfold.stream import TIMESTAMP
from keyfold.times import micros, period_start

PANE = "pane_start"
"""Column of events and state: the start of the pane, the time between two consecutive window starts.

All events of a pane are in the same windows, so state has one row per pane."""


def windows(
    name: str,
    of: Mapping[str, Aggregate],
    *,
    key: tuple[str, ...],
    event_time: str,
    length: timedelta,
    every: timedelta | None = None,
    by: tuple[str, ...] = (),
    most: str = "",
    output: pa.Schema,
    counted: str = COUNTED,
    **settings: Any,
) -> KeyedJob:
    """Make a job that aggregates the events of each key and window, and writes a window when the watermark passes its end.

    Windows are aligned to 1970-01-01 UTC and exclude their end. An event is added to those of its windows that are not written
    yet; it is late if all are written. State has aggregates per pane of length `every`, not events.

    Args:
        name: the job's name.
        of: the aggregates by column.
        key: the key columns.
        event_time: the events' time column.
        length: length of a window.
        every: time between two window starts, a divisor of `length`; by default `length`, so that windows do not overlap.
        by: further grouping columns within a window of a key.
        most: write only the rows with the greatest value of this column in each window of a key, including ties.
        output: columns of the table: the key, `by`, `window_start` or `window_end`, any of `of`, and `counted`.
        counted: the column with the number of events whose last window this is, including rows that `most` drops.
        settings: other arguments of `KeyedJob`, including `stream` and `watermark_delay`.

    Raises:
        Misconfigured: `length` is not a multiple of `every`, a sum is over floats, or `output` lacks `counted`.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Stream, TestHarness
        >>> from keyfold.operators.aggregation import count
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> end = pa.field("window_end", TIMESTAMP, nullable=False)
        >>> click = pa.schema([user, pa.field("at", TIMESTAMP, nullable=False)])
        >>> job = windows(
        ...     "clicks_per_hour", {}, stream=Stream("clicks", click, event_time="at"), key=("user",), event_time="at",
        ...     watermark_delay=timedelta(0), length=timedelta(hours=1), counted="clicks",
        ...     output=pa.schema([user, end, pa.field("clicks", pa.int64(), nullable=False)]),
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> clicks = pl.DataFrame({"user": ["ann"] * 2, "at": [noon] * 2})
        >>> harness.batch(clicks, advance_to=noon + timedelta(hours=1)).tables["clicks_per_hour"]["clicks"].to_list()
        [2]
    """
    every = length if every is None else every
    if not timedelta(0) < every <= length or length % every:
        raise Misconfigured(f"job {name}: every is {every}; length, {length}, must be a multiple of it")
    if counted not in output.names:
        raise Misconfigured(f"job {name}: output has no column {counted}, by which events are counted (`counted`)")
    sums, groups = Aggregates(name, of, counted, event_time, output), [*key, *by]
    end = pl.col(PANE) + length

    def chosen(rows: pl.DataFrame) -> pl.DataFrame:
        # A value below the greatest of its pane is below it in every window too. This holds only for columns of `by`, which
        # do not grow as events are added.
        return _with_the_most(rows, [*key, PANE], most, counted) if most in by else rows

    def combine(rows: pl.DataFrame) -> pl.DataFrame:
        return sums.combined(chosen(rows), [*groups, PANE], pl.col(event_time).max())

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        # A pane whose last window was written before the batch: no window is left for its events.
        is_late = end <= clock.late_watermark
        # The deadline of a pane is the end of its next window that is not written yet.
        following, unwritten = (
            period_start(pl.lit(time), every) + every for time in (clock.watermark, clock.late_watermark)
        )
        came = events.filter(~is_late).with_columns(pl.max_horizontal(pl.col(PANE) + every, unwritten).alias(DEADLINE))
        panes = chosen(pl.concat([state, came.select(state.columns)]))
        panes = sums.joined(panes, [*groups, PANE], pl.col(DEADLINE).max())
        still_open = panes.with_columns(pl.max_horizontal(DEADLINE, following).alias(DEADLINE))
        return Step(
            state=still_open.filter(pl.col(DEADLINE) <= end).select(state.columns),
            output=written(panes.filter(pl.col(DEADLINE) <= clock.watermark), clock).select(output.names),
            late=events.filter(is_late),
        )

    def written(due: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        # The windows of a pane, from the first that is not written yet to the last that has ended.
        last = pl.min_horizontal(end, pl.lit(clock.watermark)).to_physical()
        ends = pl.int_ranges(pl.col(DEADLINE).to_physical(), last + 1, micros(every))
        rows = due.with_columns(window_end=ends).explode("window_end")
        rows = rows.with_columns(pl.col("window_end").cast(pl.Datetime("us", "UTC")))
        # Only the last window of a pane counts its events, so that no event is counted twice.
        rows = rows.with_columns(pl.when(pl.col("window_end") == end).then(counted).otherwise(0).alias(counted))
        rows = sums.joined(rows, [*groups, "window_end"])
        if most:
            rows = _with_the_most(rows, [*key, "window_end"], most, counted)
        return rows.with_columns(window_start=pl.col("window_end") - length)

    keyed = [output.field(one) for one in groups]
    descriptions = (
        "Start of the span between two beginnings of windows (UTC)",
        "When the next window with this span is over (UTC)",
    )
    pane, deadline = (
        column(one, TIMESTAMP, what, made_of=(event_time,), nullable=False)
        for one, what in zip((PANE, DEADLINE), descriptions, strict=True)
    )
    return counting_job(
        counted,
        settings,
        {PANE: period_start(pl.col(event_time), every), **sums.derived},
        name=name,
        key=key,
        event_time=event_time,
        events=pa.schema([*keyed, newest(event_time), pane, *sums.fields]),
        state=pa.schema([*keyed, pane, *sums.fields, deadline]),
        output=output,
        step=step,
        combine=combine,
    )


def _with_the_most(rows: pl.DataFrame, groups: list[str], most: str, counted: str) -> pl.DataFrame:
    """Return the rows with the greatest value of each group; the first has the number of events of the whole group."""
    rows = rows.with_columns(pl.col(counted).sum().over(groups))
    rows = rows.filter(pl.col(most) == pl.col(most).max().over(groups))
    # Sort, so that the first row does not depend on the order of events.
    rows = rows.sort([name for name in rows.columns if name != counted])
    return rows.with_columns(pl.when(pl.struct(groups).is_first_distinct()).then(counted).otherwise(0).alias(counted))
