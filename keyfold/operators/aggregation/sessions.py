"""Make jobs that aggregate the events of each key by session, and write a session when it has ended."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append
from keyfold.operators.aggregation.aggregates import Aggregate
from keyfold.operators.aggregation.combined_rows import Aggregates, counting_job, newest
from keyfold.operators.aggregation.inference import OutputColumns, counted_by
from keyfold.operators.signatures import operator
from keyfold.schemas import Columns, field_of, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import as_duration, period_start

START = "window_start"


@operator(
    lateness="a late event may join two sessions that were written, of which none can be taken back; give the input a "
    "longer delay"
)
def sessions(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    key: str | Sequence[str],
    gap: timedelta | str,
    output: Columns | None = None,
    counted: str = "",
    **settings: Any,
) -> KeyedJob:
    """Make a job that writes one row per session of a key: events at most `gap` apart.

    A session is written when the watermark passes its end, `gap` after its last event. An event is late if its session would
    already have ended when it arrived, and it joins no open session. There is no `lateness`: a late event may join two
    sessions that were written, and an upsert table takes no row back. Give the input a longer `delay`.

    Args:
        name, source, of, key, settings: as for `windows`.
        gap: the longest time between two events of a session.
        output: columns of the table: the key, `window_start` (the first event), `window_end`, any of `of`, and `counted`;
            by default all of them.
        counted: the column with the number of events; by default the first `count()`, or `n_events`.

    Raises:
        Misconfigured: `gap` is not positive, or `output` lacks `counted`.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Stream, TestHarness
        >>> from keyfold.operators import count
        >>> user = pa.field("user", pa.string(), nullable=False)
        >>> click = pa.schema([user, pa.field("at", TIMESTAMP, nullable=False)])
        >>> job = sessions(
        ...     "visits", Stream("clicks", click, event_time="at"), {"clicks": count()}, key="user", gap="30m",
        ... )
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> times = [noon, noon + timedelta(minutes=20), noon + timedelta(hours=1)]
        >>> clicks = pl.DataFrame({"user": ["ann"] * 3, "at": times})
        >>> harness.batch(clicks).tables["visits"]["clicks"].to_list()
        [2]
    """
    source, key, gap = as_input(source), names_of(key), as_duration(f"job {name}: gap", gap)
    event_time = source.event_time
    if gap <= timedelta(0):
        raise Misconfigured(f"job {name}: gap is {gap}; it must be longer than nothing")
    counted = counted_by(of, counted)
    times = ("window_start", "window_end")
    output_columns = OutputColumns(name, source, key, of)
    table = output_columns.output(output, times=times, counted=counted)
    if counted not in table.names:
        raise Misconfigured(f"job {name}: output has no column {counted}, by which events are counted (`counted`)")
    taken = [*key, event_time, DEADLINE, *times]
    sums, by = Aggregates(name, of, counted, source, output_columns.aggregates_in(table), taken), list(key)
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
            output=sums.finished(joined.filter(is_over & ~was_over))
            .with_columns(window_end=DEADLINE)
            .select(table.names),
            late=rows.join(joined.filter(was_over), on="#session", how="semi").select(events.columns),
        )

    keyed = [field_of(f"job {name}: output", one, table) for one in key]
    first, deadline = (
        column(one, TIMESTAMP, what, lineage=(event_time,), nullable=False)
        for one, what in ((START, "Event time of the first of them (UTC)"), (DEADLINE, "End of the session (UTC)"))
    )
    rows = [*keyed, newest(event_time), first, *sums.fields]
    return counting_job(
        name,
        source,
        sums.counted,
        derive={START: pl.col(event_time), **sums.derived},
        columns=pa.schema(rows),
        combine=combine,
        key=key,
        state=State(pa.schema([*rows, deadline]), events=pl.col(sums.counted).sum()),
        step=step,
        tables=[Append(table, events=pl.col(counted).sum())],
        settings=settings,
    )
