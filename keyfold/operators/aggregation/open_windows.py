"""The step of `windows`: panes in state, of which the rows of windows are made."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.operators.aggregation.combined_rows import Aggregates
from keyfold.operators.aggregation.top_groups import TopGroups
from keyfold.operators.aggregation.window_shapes import WINDOW_END, Shape, Spans
from keyfold.times import END, micros

_SINCE = "#since"


@dataclass(frozen=True)
class OpenWindows:
    """The step of a job with windows.

    The deadline of a pane is the end of its next window that is not written; or, if all are, when the last is final.

    Attributes:
        shape: the panes and windows.
        sums: the aggregates, of panes and of windows.
        key: the key columns; none where the pane is the key.
        groups: those, and the columns that group events within a window.
        pane: the column with the start of the pane.
        event_time: the column with the time of events.
        counted: the column with the number of events of a row.
        keep_max: of which column only the greatest values of a window are written; empty for all.
        allowed_lateness: how long after its end a window takes events; None if it is final at its end.
        while_open: whether the row of a window is written whenever it changes.
        top: what is written in place of the rows of all groups, if anything.
        then: columns computed from the others.
        columns: the columns of the table.
    """

    shape: Shape
    sums: Aggregates
    key: list[str]
    groups: list[str]
    pane: str
    event_time: str
    counted: str
    keep_max: str
    allowed_lateness: timedelta | None
    while_open: bool
    top: TopGroups | None
    then: Mapping[str, pl.Expr]
    columns: list[str]

    @property
    def end(self) -> pl.Expr:
        """The end of the last window of a pane."""
        return _in_calendar(self.shape.end(pl.col(self.pane)))

    @property
    def final(self) -> pl.Expr:
        """When the last window of a pane is final: no event corrects it any more."""
        return self.end if self.allowed_lateness is None else _in_calendar(self.end + self.allowed_lateness)

    def combine(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Aggregate events by pane, before the shuffle."""
        return self.sums.combined(self._chosen(rows), [*self.groups, self.pane], pl.col(self.event_time).max())

    def step(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        """Add events to their panes, and write the windows that end."""
        before, now = pl.lit(clock.previous_watermark), pl.lit(clock.watermark)
        # A pane whose last window was final before the batch: no window is left for its events.
        is_late = self.final <= before
        # From the first window of a pane that is not final.
        final_before = before if self.allowed_lateness is None else before - self.allowed_lateness
        since = _in_calendar(self.shape.next_end(pl.col(self.pane), final_before))
        came = events.filter(~is_late).with_columns(since.alias(DEADLINE))
        earlier, new = state, self.sums.new(came).select(state.columns)
        if self.allowed_lateness is not None:
            # Events change windows that are written, which all panes of them are needed for; others are not written again.
            earlier, new = (
                rows.with_columns(pl.col(DEADLINE).alias(_SINCE), since.alias(DEADLINE)) for rows in (earlier, new)
            )
        panes = self._chosen(pl.concat([earlier, new]))
        panes = self.sums.joined(panes, [*self.groups, self.pane], pl.col(DEADLINE).max(), *self._more)
        following = pl.max_horizontal(DEADLINE, _in_calendar(self.shape.next_end(pl.col(self.pane), now)))
        if self.allowed_lateness is not None:
            following = pl.when(following > now, following <= self.end).then(following).otherwise(self.final)
        still_open = panes.with_columns(following.alias(DEADLINE))
        still_open = still_open.filter(pl.col(DEADLINE) > now, pl.col(DEADLINE) <= self.final)
        panes_of_state, late = still_open.select(state.columns), events.filter(is_late)
        if self.top is not None:
            output, side = self.top.rows(panes, came, clock.watermark)
            return Step(state=panes_of_state, output=output, late=late, side=side)
        rows = self._written(panes.filter(pl.col(DEADLINE) <= now), clock)
        if self.while_open:
            changed = still_open.filter(pl.col(DEADLINE) <= self.end)
            changed = changed.join(came, on=[*self.groups, self.pane], how="semi")
            changed = self.sums.finished(changed.rename({DEADLINE: WINDOW_END}))
            opened = (rows.with_columns(is_open=pl.lit(value=False)), changed.with_columns(is_open=pl.lit(value=True)))
            rows = pl.concat([part.select(opened[0].columns) for part in opened])
        rows = rows.with_columns(window_start=pl.col(self.pane)).with_columns(**self.then)
        return Step(state=panes_of_state, output=rows.select(self.columns), late=late)

    @property
    def _more(self) -> list[pl.Expr]:
        return [] if self.allowed_lateness is None else [pl.col(_SINCE).min()]

    def _chosen(self, rows: pl.DataFrame) -> pl.DataFrame:
        # A value below the greatest of its pane is below it in every window too. This holds only for columns of `by`, which
        # do not grow as events are added.
        if self.keep_max not in self.groups[len(self.key) :]:
            return rows
        return _rows_with_max(rows, [*self.key, self.pane], self.keep_max, self.sums.counted)

    def _written(self, due: pl.DataFrame, clock: Clock) -> pl.DataFrame:
        shape = self.shape
        if isinstance(shape, Spans) and shape.overlaps:
            rows = self._overlapping(due, clock, shape)
        else:
            rows = due.rename({DEADLINE: WINDOW_END})
        if self.allowed_lateness is not None:
            rows = rows.filter(pl.col(WINDOW_END) >= pl.col(_SINCE))
        rows = self.sums.finished(rows)
        if not self.keep_max:
            return rows
        return _rows_with_max(rows, [*self.key, WINDOW_END], self.keep_max, self.counted)

    def _overlapping(self, due: pl.DataFrame, clock: Clock, shape: Spans) -> pl.DataFrame:
        # The windows of a pane, from the first that may be written to the last that has ended.
        # At the end of the calendar, those that end behind it have ended too, and are one window: the last of their panes.
        is_end = clock.watermark >= END
        last_end = self.shape.end(pl.col(self.pane))
        last = (last_end if is_end else pl.min_horizontal(last_end, pl.lit(clock.watermark))).to_physical()
        ends = pl.int_ranges(pl.col(DEADLINE).to_physical(), last + 1, micros(shape.every))
        rows = due.with_columns(**{WINDOW_END: ends}).explode(WINDOW_END)
        rows = rows.with_columns(_in_calendar(pl.col(WINDOW_END).cast(pl.Datetime("us", "UTC"))))
        rows = rows.unique([*self.groups, self.pane, WINDOW_END]) if is_end else rows
        # Only the last window of a pane counts its events, so that no event is counted twice.
        is_last = pl.col(WINDOW_END) == self.end
        rows = rows.with_columns(pl.when(is_last).then(self.sums.counted).otherwise(0).alias(self.sums.counted))
        rows = self.sums.joined(rows, [*self.groups, WINDOW_END], *self._more)
        return rows.with_columns((pl.col(WINDOW_END) - shape.length).alias(self.pane))


def _in_calendar(time: pl.Expr) -> pl.Expr:
    """Return a time, or the end of the calendar if it lies behind it: state and tables hold no later one, and no watermark passes it."""
    return pl.min_horizontal(time, pl.lit(END))


def _rows_with_max(rows: pl.DataFrame, groups: list[str], keep_max: str, counted: str) -> pl.DataFrame:
    """Return the rows with the greatest value of each group; the first has the number of events of the whole group."""
    rows = rows.with_columns(pl.col(counted).sum().over(groups))
    # Where no row has a value, all are equal: their events must be counted.
    rows = rows.filter(pl.col(keep_max).eq_missing(pl.col(keep_max).max().over(groups)))
    # Sort, so that the first row does not depend on the order of events.
    rows = rows.sort([name for name in rows.columns if name != counted])
    return rows.with_columns(pl.when(pl.struct(groups).is_first_distinct()).then(counted).otherwise(0).alias(counted))
