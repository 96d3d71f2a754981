"""Make jobs that aggregate the events of each key by tumbling or hopping windows of event time, or by calendar days."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl
import pyarrow as pa
from pydantic import AfterValidator

from keyfold.columns import column
from keyfold.durations import as_duration
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.schemas import Columns, declared_schema
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, Upsert, names_of
from keyfold.operators.aggregation.aggregates import Aggregate, Aggregates, counting_job, newest
from keyfold.operators.aggregation.inference import counted_by, inferred_output
from keyfold.stream import TIMESTAMP
from keyfold.times import EPOCH, micros, period_start

PANE = "pane_start"
"""Column of events and state: the start of the pane, the time between two consecutive window starts.

All events of a pane are in the same windows, so state has one row per pane."""

IS_OPEN = "is_open"


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
        # Polars lacks a few: `localtime`, `Factory`.
        pl.select(Days(name).end(pl.lit(EPOCH).cast(pl.Datetime("us", "UTC"))))
    except (ZoneInfoNotFoundError, ValueError, OSError, pl.exceptions.PolarsError):
        raise ValueError("not a time zone of the IANA database; give one such as UTC or Europe/Berlin") from None
    return name


TimeZone = Annotated[str, AfterValidator(_known_zone)]
"""A time zone by its IANA name: `UTC`, `Europe/Berlin`."""


@dataclass(frozen=True)
class _Spans:
    """Panes of `every`, in windows of `length`."""

    length: timedelta
    every: timedelta

    def start(self, time: pl.Expr) -> pl.Expr:
        """Return the start of the pane of a time."""
        return period_start(time, self.every)

    def end(self, pane: pl.Expr) -> pl.Expr:
        """Return the end of the last window of a pane."""
        return pane + self.length

    def next_end(self, pane: pl.Expr, watermark: datetime) -> pl.Expr:
        """Return the end of the first window of a pane that the watermark has not reached."""
        return pl.max_horizontal(pane + self.every, period_start(pl.lit(watermark), self.every) + self.every)


@dataclass(frozen=True)
class Days:
    """Days of a time zone, each a pane and a window. They have 23 or 25 hours when clocks are set."""

    zone: str

    def start(self, time: pl.Expr) -> pl.Expr:
        return self._begin(time.dt.convert_time_zone(self.zone).dt.date())

    def end(self, pane: pl.Expr) -> pl.Expr:
        return self._begin(pane.dt.convert_time_zone(self.zone).dt.date().dt.offset_by("1d"))

    def next_end(self, pane: pl.Expr, watermark: datetime) -> pl.Expr:
        return self.end(pane)

    def _begin(self, day: pl.Expr) -> pl.Expr:
        midnight, hour_before = (
            (day.cast(pl.Datetime("us")) - before).dt.replace_time_zone(
                self.zone, ambiguous="earliest", non_existent="null"
            )
            for before in (timedelta(0), timedelta(hours=1))
        )
        # A midnight that does not exist is taken as an hour after 23:00, which is the moment of the jump.
        return midnight.fill_null(hour_before + timedelta(hours=1)).dt.convert_time_zone("UTC")


def windows(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    key: str | Sequence[str],
    length: timedelta | str | None = None,
    every: timedelta | str | None = None,
    days_of: str = "",
    by: tuple[str, ...] = (),
    most: str = "",
    while_open: bool = False,
    then: Mapping[str, pl.Expr] | None = None,
    output: Columns | None = None,
    counted: str = "",
    **settings: Any,
) -> KeyedJob:
    """Make a job that aggregates the events of each key and window, and writes a window when the watermark passes its end.

    Windows are aligned to 1970-01-01 UTC and exclude their end. An event is added to those of its windows that are not written
    yet; it is late if all are written. State has aggregates per pane of length `every`, not events.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        of: the aggregates by column.
        key: the key columns.
        length: length of a window.
        days_of: in place of `length`: a time zone whose calendar days are the windows.
        every: time between two window starts, a divisor of `length`; by default `length`, so that windows do not overlap.
        by: further grouping columns within a window of a key.
        most: write only the rows with the greatest value of this column in each window of a key, including ties.
        while_open: upsert the row of a window whenever it changes, with `is_open` until it is final; for windows that do not
            overlap. Key, `by` and `window_start` are the table's key.
        then: columns computed from the others.
        output: columns of the table: the key, `by`, `window_start` or `window_end`, any of `of` and `then`, and `counted`. By
            default all of them.
        counted: the column with the number of events whose last window this is, including rows that `most` drops. By default
            the first `count()` of windows that do not overlap, or `n_events`.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `length` is not a multiple of `every`, there is not one of `length` and `days_of`, a sum is over floats,
            `output` lacks `counted`, or `while_open` is of windows that overlap or with `most`.

    Example:
        >>> from datetime import UTC, datetime
        >>> from keyfold import Stream, TestHarness
        >>> from keyfold.operators import count
        >>> click = pa.schema([pa.field(one, kind, nullable=False) for one, kind in (("user", pa.string()), ("at", TIMESTAMP))])
        >>> clicks = Stream("clicks", click, event_time="at")
        >>> job = windows("clicks_per_hour", clicks, {"clicks": count()}, key="user", length="1h")
        >>> harness, noon = TestHarness(job), datetime(2026, 1, 31, 12, tzinfo=UTC)
        >>> came = pl.DataFrame({"user": ["ann"] * 2, "at": [noon] * 2})
        >>> harness.batch(came, advance_to=noon + timedelta(hours=1)).tables["clicks_per_hour"]["clicks"].to_list()
        [2]
    """
    source, key = as_input(source), names_of(key)
    event_time = source.event_time
    shape = _shape(name, length, every, days_of)
    length, every = (shape.length, shape.every) if isinstance(shape, _Spans) else (None, None)
    overlaps = every is not None and every != length
    counted = counted_by({} if overlaps or most else of, counted)
    if output is None:
        is_open = [column(IS_OPEN, pa.bool_(), "Whether it may still change", lineage=(event_time,), nullable=False)]
        output = inferred_output(
            name, source, of, by=(*key, *by), times=("window_start", "window_end"), counted=counted, then=then,
            more=is_open if while_open else (),
        )  # fmt: skip
    table = declared_schema(f"job {name}: output", output, (*key, *by))
    if counted not in table.names:
        raise Misconfigured(f"job {name}: output has no column {counted}, by which events are counted (`counted`)")
    if while_open and (overlaps or most):
        raise Misconfigured(f"job {name}: while_open is for windows that do not overlap, without most")
    sums, groups = Aggregates(name, of, counted, source, table), [*key, *by]
    end = shape.end(pl.col(PANE))

    def chosen(rows: pl.DataFrame) -> pl.DataFrame:
        # A value below the greatest of its pane is below it in every window too. This holds only for columns of `by`, which
        # do not grow as events are added.
        return _with_the_most(rows, [*key, PANE], most, counted) if most in by else rows

    def combine(rows: pl.DataFrame) -> pl.DataFrame:
        return sums.combined(chosen(rows), [*groups, PANE], pl.col(event_time).max())

    def step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        # A pane whose last window was written before the batch: no window is left for its events.
        is_late = end <= clock.previous_watermark
        # The deadline of a pane is the end of its next window that is not written yet.
        unwritten, following = (
            shape.next_end(pl.col(PANE), one) for one in (clock.previous_watermark, clock.watermark)
        )
        came = events.filter(~is_late).with_columns(unwritten.alias(DEADLINE))
        panes = chosen(pl.concat([state, came.select(state.columns)]))
        panes = sums.joined(panes, [*groups, PANE], pl.col(DEADLINE).max())
        still_open = panes.with_columns(pl.max_horizontal(DEADLINE, following).alias(DEADLINE))
        still_open = still_open.filter(pl.col(DEADLINE) > clock.watermark, pl.col(DEADLINE) <= end)
        rows = written(panes.filter(pl.col(DEADLINE) <= clock.watermark), clock)
        if while_open:
            changed = still_open.join(came, on=[*groups, PANE], how="semi").rename({DEADLINE: "window_end"})
            changed = sums.finished(changed)
            opened = (rows.with_columns(is_open=pl.lit(value=False)), changed.with_columns(is_open=pl.lit(value=True)))
            rows = pl.concat([part.select(opened[0].columns) for part in opened])
        return Step(
            state=still_open.select(state.columns),
            output=rows.with_columns(window_start=pl.col(PANE)).with_columns(**then or {}).select(table.names),
            late=events.filter(is_late),
        )

    def written(due: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        rows = overlapping(due, clock, length) if length and overlaps else due.rename({DEADLINE: "window_end"})
        rows = sums.finished(rows)
        return _with_the_most(rows, [*key, "window_end"], most, counted) if most else rows

    def overlapping(due: pl.DataFrame, clock: Clock, length: timedelta) -> pl.DataFrame:
        # The windows of a pane, from the first that is not written yet to the last that has ended.
        last = pl.min_horizontal(end, pl.lit(clock.watermark)).to_physical()
        ends = pl.int_ranges(pl.col(DEADLINE).to_physical(), last + 1, micros(every or length))
        rows = due.with_columns(window_end=ends).explode("window_end")
        rows = rows.with_columns(pl.col("window_end").cast(pl.Datetime("us", "UTC")))
        # Only the last window of a pane counts its events, so that no event is counted twice.
        rows = rows.with_columns(pl.when(pl.col("window_end") == end).then(counted).otherwise(0).alias(counted))
        rows = sums.joined(rows, [*groups, "window_end"])
        return rows.with_columns((pl.col("window_end") - length).alias(PANE))

    keyed = [table.field(one) for one in groups]
    descriptions = (
        "Start of the span between two beginnings of windows (UTC)",
        "When the next window with this span is over (UTC)",
    )
    pane, deadline = (
        column(one, TIMESTAMP, what, lineage=(event_time,), nullable=False)
        for one, what in zip((PANE, DEADLINE), descriptions, strict=True)
    )
    number = pl.col(counted).sum()
    written_to = Append(table, events=number)
    if while_open:
        # Events of open windows are counted in state.
        written_to = Upsert(table, (*groups, "window_start"), events=pl.col(counted).filter(~pl.col(IS_OPEN)).sum())
    return counting_job(
        name,
        source,
        counted,
        derive={PANE: shape.start(pl.col(event_time)), **sums.derived},
        columns=pa.schema([*keyed, newest(event_time), pane, *sums.fields]),
        combine=combine,
        key=key,
        state=State(pa.schema([*keyed, pane, *sums.fields, deadline]), events=number),
        step=step,
        tables=[written_to],
        settings=settings,
    )


def _shape(job: str, length: timedelta | str | None, every: timedelta | str | None, days_of: str) -> "_Spans | Days":
    """Return the panes and windows of a job.

    Raises:
        Misconfigured: there is not one of length and days_of, or windows leave gaps.
    """
    if (length is None) == (not days_of):
        raise Misconfigured(f"job {job}: give one of length and days_of")
    if length is None:
        return Days(days_of)
    length = as_duration(f"job {job}: length", length)
    every = length if every is None else as_duration(f"job {job}: every", every)
    if not timedelta(0) < every <= length or length % every:
        raise Misconfigured(f"job {job}: every is {every}; length, {length}, must be a multiple of it")
    return _Spans(length, every)


def _with_the_most(rows: pl.DataFrame, groups: list[str], most: str, counted: str) -> pl.DataFrame:
    """Return the rows with the greatest value of each group; the first has the number of events of the whole group."""
    rows = rows.with_columns(pl.col(counted).sum().over(groups))
    rows = rows.filter(pl.col(most) == pl.col(most).max().over(groups))
    # Sort, so that the first row does not depend on the order of events.
    rows = rows.sort([name for name in rows.columns if name != counted])
    return rows.with_columns(pl.when(pl.struct(groups).is_first_distinct()).then(counted).otherwise(0).alias(counted))
