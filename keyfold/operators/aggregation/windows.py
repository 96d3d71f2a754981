"""Make jobs that aggregate the events of each key by tumbling or hopping windows of event time, or by the calendar."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl
import pyarrow as pa
from pydantic import AfterValidator

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Source, as_input
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.keyed.job.tables import Append, Upsert
from keyfold.operators.aggregation.aggregates import COUNTED, Aggregate
from keyfold.operators.aggregation.combined_rows import Aggregates, counting_job, newest
from keyfold.operators.aggregation.inference import OutputColumns, counted_by
from keyfold.operators.signatures import operator
from keyfold.schemas import Columns, field_of, names_of
from keyfold.stream import TIMESTAMP
from keyfold.times import EPOCH, as_duration, micros, period_start

PANE = "pane_start"
"""Column of events and state: the start of the pane, the time between two consecutive window starts.

All events of a pane are in the same windows, so state has one row per pane."""

IS_OPEN = "is_open"
_TIMES = ("window_start", "window_end")
_SINCE = "#since"


def _known_zone(name: str) -> str:
    # Asking Polars starts threads, which a fork after an import lacks: not for the usual one.
    if name == "UTC":
        return name
    try:
        ZoneInfo(name)
        # Polars lacks a few: `localtime`, `Factory`.
        pl.select(Calendar("day", name).end(pl.lit(EPOCH).cast(pl.Datetime("us", "UTC"))))
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

    @property
    def overlaps(self) -> bool:
        return self.every != self.length

    def start(self, time: pl.Expr) -> pl.Expr:
        """Return the start of the pane of a time."""
        return period_start(time, self.every)

    def end(self, pane: pl.Expr) -> pl.Expr:
        """Return the end of the last window of a pane."""
        return pane + self.length

    def next_end(self, pane: pl.Expr, watermark: pl.Expr) -> pl.Expr:
        """Return the end of the first window of a pane that the watermark has not reached."""
        return pl.max_horizontal(pane + self.every, period_start(watermark, self.every) + self.every)


Period = Literal["day", "week", "month", "quarter", "year"]
_PERIODS: dict[Period, str] = {"day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}


@dataclass(frozen=True)
class Calendar:
    """Periods of the calendar in a time zone, each a pane and a window. Weeks begin on Monday.

    A day has 23 or 25 hours when clocks are set. Where they go back over midnight (in St John's until 2010 from 00:01 to 23:01), the
    day before goes on until the last midnight, with the minute after the first one in it.
    """

    period: Period
    zone: str

    def start(self, time: pl.Expr) -> pl.Expr:
        day = self._first_day(time)
        begin = self._begin(day)
        # Between two midnights of a day, clocks go back to the day before.
        return pl.when(begin <= time).then(begin).otherwise(self._begin(day.dt.offset_by(f"-{_PERIODS[self.period]}")))

    def end(self, pane: pl.Expr) -> pl.Expr:
        return self._begin(self._first_day(pane).dt.offset_by(_PERIODS[self.period]))

    def next_end(self, pane: pl.Expr, watermark: pl.Expr) -> pl.Expr:
        return self.end(pane)

    def _first_day(self, time: pl.Expr) -> pl.Expr:
        return time.dt.convert_time_zone(self.zone).dt.date().dt.truncate(_PERIODS[self.period])

    def _begin(self, day: pl.Expr) -> pl.Expr:
        """Return from when on the date is this day or later."""
        first, last = (self._at(day, midnight) for midnight in ("earliest", "latest"))
        is_repeated = (last - timedelta(microseconds=1)).dt.convert_time_zone(self.zone).dt.date() < day
        # A midnight that does not exist is taken as an hour after 23:00, which is the moment of the jump.
        hour_before = self._at(day, "earliest", timedelta(hours=1)) + timedelta(hours=1)
        return pl.when(is_repeated).then(last).otherwise(first).fill_null(hour_before).dt.convert_time_zone("UTC")

    def _at(self, day: pl.Expr, which: Literal["earliest", "latest"], before: timedelta = timedelta(0)) -> pl.Expr:
        """Return the first or last time at which clocks show the midnight of a day, or so long before; NULL if they never do."""
        shown = day.cast(pl.Datetime("us")) - before
        return shown.dt.replace_time_zone(self.zone, ambiguous=which, non_existent="null")


@operator()
def windows(
    name: str,
    source: Source,
    of: Mapping[str, Aggregate],
    *,
    key: str | Sequence[str],
    length: timedelta | str | None = None,
    every: timedelta | str | None = None,
    calendar: Period | None = None,
    zone: str = "UTC",
    by: str | Sequence[str] = (),
    keep_max: str = "",
    while_open: bool = False,
    allowed_lateness: timedelta | str | None = None,
    changes: bool = False,
    then: Mapping[str, pl.Expr] | None = None,
    output: Columns | None = None,
    counted: str = "",
    **settings: Any,
) -> KeyedJob:
    """Make a job that aggregates the events of each key and window, and writes a window when the watermark passes its end.

    - **Windows** are aligned to 1970-01-01 UTC and exclude their end.
    - **Late events**: an event is added to those of its windows that are not final; it is late if all are. A window is final
      when it is written, or, with `allowed_lateness`, so long after its end: until then an event corrects its row.
    - **Order**: neither arrival nor batch boundaries change the row of a window that is final.
    - **Silent keys**: their windows are written when the watermark passes their end, as those of all keys.
    - **State**: aggregates per pane of length `every` until its last window is final, not events.

    Args:
        name: the job's name.
        source: the stream, or its `Input`.
        of: the aggregates by column.
        key: the key columns.
        length: length of a window.
        calendar: in place of `length`: the windows are days, weeks from Monday, months, quarters or years.
        zone: the time zone of `calendar`, by its IANA name.
        every: time between two window starts, a divisor of `length`; by default `length`, so that windows do not overlap.
        by: further grouping columns within a window of a key.
        keep_max: write only the rows with the greatest value of this column in each window of a key, including ties.
        while_open: upsert the row of a window whenever it changes, with `is_open` until its end; for windows that do not
            overlap. Key, `by` and `window_start` are the table's key.
        allowed_lateness: how long after its end a window takes events: each batch that has some upserts the corrected row. The
            table's key is as with `while_open`.
        changes: whether what changes is written to `changes.<name>`, for other jobs (`KeyedJob.changes`);
            with `while_open` or `allowed_lateness`.
        then: columns computed from the others.
        output: columns of the table: the key, `by`, `window_start` or `window_end`, any of `of` and `then`, and `counted`. By
            default all of them.
        counted: the column with the number of events whose last window this is, including rows that `keep_max` drops. By default
            the first `count()` of windows that do not overlap, or `n_events`.
        settings: other arguments of `KeyedJob`.

    Raises:
        Misconfigured: `length` is not a multiple of `every`, there is not one of `length` and `calendar`, `zone` is none, `output`
            lacks `counted`, `while_open` is of windows that overlap, or rows are upserted with `keep_max`, or not
            with `changes`.

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
    shape = _shape(name, length, every, calendar, zone)
    overlaps = isinstance(shape, _Spans) and shape.overlaps
    counted = counted_by(of, counted or (COUNTED if overlaps or keep_max else ""))
    is_open = [column(IS_OPEN, pa.bool_(), "Whether it may still change", nullable=False)] if while_open else []
    groups = [*key, *names_of(by)]
    # An upsert table has the groups in its key.
    never_null = groups if while_open or allowed_lateness is not None else key
    output_columns = OutputColumns(name, source, never_null, of, then or {})
    table = output_columns.output(output, by=groups, times=_TIMES, counted=counted, more=is_open)
    if counted not in table.names:
        raise Misconfigured(f"job {name}: output has no column {counted}, by which events are counted (`counted`)")
    if keep_max and (
        keep_max not in (*names_of(by), *of, counted)
        or (keep_max in of and of[keep_max].kind in ("collect", "distinct", "first", "last"))
    ):
        raise Misconfigured(
            f"job {name}: keep_max is {keep_max!r}; it must be of `by`, or an aggregate that has an order"
        )
    if while_open and (overlaps or keep_max):
        raise Misconfigured(f"job {name}: while_open is for windows that do not overlap, without keep_max")
    lateness = None if allowed_lateness is None else as_duration(f"job {name}: allowed_lateness", allowed_lateness)
    if lateness is not None and (keep_max or lateness <= timedelta(0)):
        raise Misconfigured(
            f"job {name}: allowed_lateness is {lateness}; it is longer than nothing, and without keep_max"
        )
    if changes and not while_open and lateness is None:
        raise Misconfigured(f"job {name}: without while_open or allowed_lateness no row changes (`changes`)")
    declared = output_columns.aggregates_in(table)
    sums = Aggregates(name, of, counted, source, declared, [*groups, event_time, PANE, DEADLINE, *_TIMES, IS_OPEN])
    made = _Windows(
        shape, sums, [*key], groups, event_time, counted, keep_max, lateness, while_open, then or {}, table.names
    )
    keyed = [field_of(f"job {name}: output", one, table) for one in groups]
    descriptions = (
        "Start of the span between two beginnings of windows (UTC)",
        "When the next window with this span is over, or the last is final (UTC)",
    )
    pane, deadline = (
        column(one, TIMESTAMP, what, lineage=(event_time,), nullable=False)
        for one, what in zip((PANE, DEADLINE), descriptions, strict=True)
    )
    number, in_state = pl.col(counted).sum(), pl.col(sums.counted).sum()
    written_to = Append(table, events=number)
    if while_open or lateness is not None:
        # Events of windows that have not ended are counted in state, all others in the table.
        if lateness is not None:
            in_state = pl.col(sums.counted).filter(pl.col(DEADLINE) <= made.end).sum()
        closed = pl.col(counted).filter(~pl.col(IS_OPEN)).sum() if while_open else number
        written_to = Upsert(table, (*groups, "window_start"), events=closed, changes=changes)
    return counting_job(
        name,
        source,
        sums.counted,
        derive={PANE: shape.start(pl.col(event_time)), **sums.derived},
        columns=pa.schema([*keyed, newest(event_time), pane, *sums.fields]),
        combine=made.combine,
        key=key,
        state=State(pa.schema([*keyed, pane, *sums.fields, deadline]), events=in_state),
        step=made.step,
        tables=[written_to],
        settings=settings,
    )


@dataclass(frozen=True)
class _Windows:
    """The step of `windows`: panes in state, of which windows are made.

    The deadline of a pane is the end of its next window that is not written; or, if all are, when the last is final.
    """

    shape: _Spans | Calendar
    sums: Aggregates
    key: list[str]
    groups: list[str]
    event_time: str
    counted: str
    keep_max: str
    lateness: timedelta | None
    while_open: bool
    then: Mapping[str, pl.Expr]
    columns: list[str]

    @property
    def end(self) -> pl.Expr:
        """The end of the last window of a pane."""
        return self.shape.end(pl.col(PANE))

    @property
    def final(self) -> pl.Expr:
        """When the last window of a pane is final: no event corrects it any more."""
        return self.end if self.lateness is None else self.end + self.lateness

    def combine(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self.sums.combined(self._chosen(rows), [*self.groups, PANE], pl.col(self.event_time).max())

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        before, now = pl.lit(clock.previous_watermark), pl.lit(clock.watermark)
        # A pane whose last window was final before the batch: no window is left for its events.
        is_late = self.final <= before
        # From the first window of a pane that is not final.
        since = self.shape.next_end(pl.col(PANE), before if self.lateness is None else before - self.lateness)
        came = events.filter(~is_late).with_columns(since.alias(DEADLINE))
        known, new = state, came.select(state.columns)
        if self.lateness is not None:
            # Events change windows that are written, which all panes of them are needed for; others are not written again.
            known, new = (
                rows.with_columns(pl.col(DEADLINE).alias(_SINCE), since.alias(DEADLINE)) for rows in (known, new)
            )
        panes = self._chosen(pl.concat([known, new]))
        panes = self.sums.joined(panes, [*self.groups, PANE], pl.col(DEADLINE).max(), *self._more)
        following = pl.max_horizontal(DEADLINE, self.shape.next_end(pl.col(PANE), now))
        if self.lateness is not None:
            following = pl.when(following > now, following <= self.end).then(following).otherwise(self.final)
        kept = panes.with_columns(following.alias(DEADLINE))
        kept = kept.filter(pl.col(DEADLINE) > now, pl.col(DEADLINE) <= self.final)
        rows = self._written(panes.filter(pl.col(DEADLINE) <= now), clock)
        if self.while_open:
            changed = kept.filter(pl.col(DEADLINE) <= self.end).join(came, on=[*self.groups, PANE], how="semi")
            changed = self.sums.finished(changed.rename({DEADLINE: "window_end"}))
            opened = (rows.with_columns(is_open=pl.lit(value=False)), changed.with_columns(is_open=pl.lit(value=True)))
            rows = pl.concat([part.select(opened[0].columns) for part in opened])
        return Step(
            state=kept.select(state.columns),
            output=rows.with_columns(window_start=pl.col(PANE)).with_columns(**self.then).select(self.columns),
            late=events.filter(is_late),
        )

    @property
    def _more(self) -> list[pl.Expr]:
        return [] if self.lateness is None else [pl.col(_SINCE).min()]

    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        # A value below the greatest of its pane is below it in every window too. This holds only for columns of `by`, which
        # do not grow as events are added.
        if self.keep_max not in self.groups[len(self.key) :]:
            return rows
        return _rows_with_max(rows, [*self.key, PANE], self.keep_max, self.sums.counted)

    def _written(self, due: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        shape = self.shape
        if isinstance(shape, _Spans) and shape.overlaps:
            rows = self._overlapping(due, clock, shape)
        else:
            rows = due.rename({DEADLINE: "window_end"})
        if self.lateness is not None:
            rows = rows.filter(pl.col("window_end") >= pl.col(_SINCE))
        rows = self.sums.finished(rows)
        return _rows_with_max(rows, [*self.key, "window_end"], self.keep_max, self.counted) if self.keep_max else rows

    def _overlapping(self, due: pl.DataFrame, clock: Clock, shape: _Spans) -> pl.DataFrame:
        # The windows of a pane, from the first that may be written to the last that has ended.
        last = pl.min_horizontal(self.end, pl.lit(clock.watermark)).to_physical()
        ends = pl.int_ranges(pl.col(DEADLINE).to_physical(), last + 1, micros(shape.every))
        rows = due.with_columns(window_end=ends).explode("window_end")
        rows = rows.with_columns(pl.col("window_end").cast(pl.Datetime("us", "UTC")))
        # Only the last window of a pane counts its events, so that no event is counted twice.
        is_last = pl.col("window_end") == self.end
        rows = rows.with_columns(pl.when(is_last).then(self.sums.counted).otherwise(0).alias(self.sums.counted))
        rows = self.sums.joined(rows, [*self.groups, "window_end"], *self._more)
        return rows.with_columns((pl.col("window_end") - shape.length).alias(PANE))


def _shape(
    job: str, length: timedelta | str | None, every: timedelta | str | None, calendar: Period | None, zone: str
) -> _Spans | Calendar:
    """Return the panes and windows of a job.

    Raises:
        Misconfigured: there is not one of length and calendar, a name is unknown, or windows leave gaps.
    """
    if (length is None) == (calendar is None):
        raise Misconfigured(f"job {job}: give one of length and calendar")
    if length is None:
        if calendar not in _PERIODS or every is not None:
            raise Misconfigured(
                f"job {job}: calendar is {calendar!r}; it must be one of {', '.join(_PERIODS)}, without every"
            )
        try:
            return Calendar(calendar, _known_zone(zone))
        except ValueError as error:
            raise Misconfigured(f"job {job}: zone is {zone!r}: {error}") from None
    length = as_duration(f"job {job}: length", length)
    if zone != "UTC":
        raise Misconfigured(
            f"job {job}: zone is of `calendar`, and windows of a length are aligned to UTC; give one of the two"
        )
    every = length if every is None else as_duration(f"job {job}: every", every)
    if not timedelta(0) < every <= length or length % every:
        raise Misconfigured(f"job {job}: every is {every}; length, {length}, must be a multiple of it")
    return _Spans(length, every)


def _rows_with_max(rows: pl.DataFrame, groups: list[str], keep_max: str, counted: str) -> pl.DataFrame:
    """Return the rows with the greatest value of each group; the first has the number of events of the whole group."""
    rows = rows.with_columns(pl.col(counted).sum().over(groups))
    # Where no row has a value, all are equal: their events must be counted.
    rows = rows.filter(pl.col(keep_max).eq_missing(pl.col(keep_max).max().over(groups)))
    # Sort, so that the first row does not depend on the order of events.
    rows = rows.sort([name for name in rows.columns if name != counted])
    return rows.with_columns(pl.when(pl.struct(groups).is_first_distinct()).then(counted).otherwise(0).alias(counted))
