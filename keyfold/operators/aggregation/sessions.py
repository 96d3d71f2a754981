"""Make jobs that aggregate the events of each key by session, and write a session when it has ended."""

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
from keyfold.times import period_start

START = "window_start"


def sessions(
    name: str,
    of: Mapping[str, Aggregate],
    *,
    key: tuple[str, ...],
    event_time: str,
    gap: timedelta,
    output: pa.Schema,
    counted: str = COUNTED,
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes one row per session of a key: events at most `gap` apart.

    A session is written when the watermark passes its end, `gap` after its last event. An event is late if its session would
    already have ended when it arrived, and it joins no open session.

    Args:
        name, of, key, event_time, settings: as for `windows`.
        gap: the longest time between two events of a session.
        output: columns of the table: the key, `window_start` (the first event), `window_end`, any of `of`, and `counted`.
        counted: the column with the number of events.

    Raises:
        Misconfigured: `gap` is not positive, a sum is over floats, or `output` lacks `counted`.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Stream, TestHarness
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> click = pa.schema([user, pa.field("at", TIMESTAMP, nullable=False)])
        >>> job = sessions(
        ...     "visits", {}, stream=Stream("clicks", click, event_time="at"), key=("user",), event_time="at",
        ...     watermark_delay=timedelta(0), gap=timedelta(minutes=30), counted="clicks",
        ...     output=pa.schema([user, ("window_start", TIMESTAMP), ("clicks", pa.int64())]),
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon, noon + timedelta(minutes=20), noon + timedelta(hours=1)]
        >>> clicks = pl.DataFrame({"user": ["ann"] * 3, "at": times})
        >>> harness.batch(clicks).tables["visits"]["clicks"].to_list()
        [2]
    """
    if gap <= timedelta(0):
        raise Misconfigured(f"job {name}: gap is {gap}; it must be longer than nothing")
    if counted not in output.names:
        raise Misconfigured(f"job {name}: output has no column {counted}, by which events are counted (`counted`)")
    sums, by = Aggregates(name, of, counted, event_time, output), list(key)
    span = pl.col(event_time).max(), pl.col(START).min()

    def combine(rows: pl.DataFrame) -> pl.DataFrame:
        # Events in one period of the gap's length are always in one session, so each period becomes one row.
        rows = rows.with_columns(period_start(pl.col(event_time), gap).alias("#period"))
        return sums.combined(rows, [*by, "#period"], *span).drop("#period")

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        # The last column of state is the deadline, which events lack.
        both = ((state.drop(DEADLINE), True), (events.select(state.columns[:-1]), False))
        rows = pl.concat([part.with_columns(pl.lit(known).alias("#known")) for part, known in both]).sort(*by, START)
        # A row may span several events, so compare its start with the latest end before it.
        silence = pl.col(START) - pl.col(event_time).cum_max().shift().over(by)
        rows = rows.with_columns((silence > gap).fill_null(value=True).cum_sum().alias("#session"))
        joined = sums.joined(rows, [*by, "#session"], *span, pl.col("#known").any())
        joined = joined.with_columns((pl.col(event_time) + gap).alias(DEADLINE))
        # A session that contains state was open before, so its new events are not late: they have extended it.
        was_over = (pl.col(DEADLINE) <= clock.previous_watermark) & ~pl.col("#known")
        is_over = pl.col(DEADLINE) <= clock.watermark
        return Step(
            state=joined.filter(~is_over).select(state.columns),
            output=joined.filter(is_over & ~was_over).with_columns(window_end=DEADLINE).select(output.names),
            late=rows.join(joined.filter(was_over), on="#session", how="semi").select(events.columns),
        )

    keyed = [output.field(one) for one in key]
    first, deadline = (
        column(one, TIMESTAMP, what, lineage=(event_time,), nullable=False)
        for one, what in ((START, "Event time of the first of them (UTC)"), (DEADLINE, "End of the session (UTC)"))
    )
    rows = [*keyed, newest(event_time), first, *sums.fields]
    return counting_job(
        counted,
        settings,
        {START: pl.col(event_time), **sums.derived},
        name=name,
        key=key,
        event_time=event_time,
        events=pa.schema(rows),
        state=pa.schema([*rows, deadline]),
        output=output,
        step=step,
        combine=combine,
    )
