"""The step of a pattern job: events wait for the watermark, are sorted, and are searched for each pattern."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import polars as pl

from keyfold.keyed.job.step import DEADLINE, Clock, Step
from keyfold.operators.ordering import in_order
from keyfold.operators.patterns.matching import NO_ROW, Found, Rows, Sequence, find
from keyfold.operators.patterns.vocabulary import FIRST, LAST, Pattern
from keyfold.times import micros, period_start, to_micros

PATTERN, FIRST_TIME, LAST_TIME = "pattern", f"{FIRST}time", f"{LAST}time"
HOUR_START, EVENTS = "hour_start", "events"
ROLE, CHECKED = "role", "events_checked"
WAITING, OPEN, COUNTED = "waiting", "open", "counted"
"""Roles of a row of state: an event ahead of the watermark; an event that may begin a match of `pattern`; the number of
processed events of a key in the watermark's hour, with the start of the hour as its time."""

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class PatternStep:
    """The step of a job that finds patterns.

    Attributes:
        columns: columns of an event, in the order that breaks ties.
        key: columns of the key.
        event_time: the column of event times.
        patterns: the patterns by name.
        keep: columns to copy from the first and the last event of a match.
        checked_table: name of the table with the number of processed events.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    event_time: str
    patterns: Mapping[str, Pattern]
    keep: tuple[str, ...]
    checked_table: str

    def __call__(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
        """Process a batch: every event waits, is searched and counted, or is late; every match is written once."""
        is_late = events[self.event_time] <= clock.previous_watermark
        on_time = events.filter(~is_late).select(self.columns)
        came = pl.concat([state.filter(pl.col(ROLE) == WAITING).select(self.columns), on_time])
        has_passed = came[self.event_time] <= clock.watermark
        waiting, passed = came.filter(~has_passed), came.filter(has_passed)
        was_open = state.filter(pl.col(ROLE) == OPEN).select(*self.columns, PATTERN)
        matches, still_open = [], []
        looked_at = self._in_order(was_open, passed)
        for name in self.patterns:
            sequence = self._open_for(name, looked_at)
            result = find(self.patterns[name], sequence, micros(clock.watermark))
            matches.append(self._matches(name, sequence.events, result))
            still_open.append(self._open(name, sequence.events[result.open]))
        counted, checked = self._count(state.filter(pl.col(ROLE) == COUNTED), looked_at, clock)
        waiting = waiting.with_columns(pl.lit(WAITING).alias(ROLE), pl.col(self.event_time).alias(DEADLINE))
        # The empty frame gives `state` its columns, in their order; other frames lack some.
        return Step(
            state=pl.concat([state.clear(), waiting, *still_open, counted], how="diagonal"),
            output=pl.concat(matches),
            late=events.filter(is_late),
            side={self.checked_table: checked},
        )

    def _in_order(self, was_open: pl.DataFrame, passed: pl.DataFrame) -> Sequence:
        """Sort the open events of all patterns and the events that the watermark has passed since."""
        came = pl.concat([was_open, passed.with_columns(pl.lit(None, pl.String).alias(PATTERN))])
        ties = [name for name in self.columns if name not in (*self.key, self.event_time)]
        ordered = in_order(came, self.key, self.event_time, ties)
        is_new = ordered.events[PATTERN].is_null().to_numpy()
        return Sequence(ordered.events, ordered.key_number, to_micros(ordered.events[self.event_time]), is_new)

    def _open_for(self, name: str, looked_at: Sequence) -> Sequence:
        """Return the events to search for a pattern: without those that are open for other patterns only."""
        if len(self.patterns) == 1:
            return looked_at
        is_mine = (looked_at.events[PATTERN] == name).fill_null(value=False).to_numpy()
        mine = np.flatnonzero(looked_at.is_new | is_mine)
        events, key_number, time, is_new = looked_at
        return Sequence(events[mine], key_number[mine], time[mine], is_new[mine])

    def _matches(self, name: str, events: pl.DataFrame, matches: Found) -> pl.DataFrame:
        first, last = (
            self._columns_of(events, rows, which) for rows, which in ((matches.first, FIRST), (matches.last, LAST))
        )
        key = events[matches.first].select(*self.key, pl.lit(name).alias(PATTERN))
        return pl.concat([key, first, last], how="horizontal").select(
            *self.key, PATTERN, FIRST_TIME, LAST_TIME, *self._copied_columns
        )

    def _columns_of(self, events: pl.DataFrame, rows: Rows, which: str) -> pl.DataFrame:
        """Return the columns of the first or the last events of matches."""
        columns = events.select(pl.col(self.event_time).alias(f"{which}time"), pl.col(self.keep).name.prefix(which))
        # All of a pattern's matches have a last event, or none has.
        return columns.clear(len(rows)) if (rows == NO_ROW).all() else columns[rows]

    @property
    def _copied_columns(self) -> list[str]:
        """The columns of matches that are copied from events: for each kept column, those of the first and the last event."""
        return [f"{which}{column}" for column in self.keep for which in (FIRST, LAST)]

    def _open(self, name: str, events: pl.DataFrame) -> pl.DataFrame:
        ends = pl.col(self.event_time) + self.patterns[name].within
        return events.with_columns(pl.lit(OPEN).alias(ROLE), pl.lit(name).alias(PATTERN), ends.alias(DEADLINE))

    def _count(self, counted: pl.DataFrame, looked_at: Sequence, clock: Clock) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Count processed events by key and hour; returns rows of state for the current hour, and rows of finished hours."""
        hour = looked_at.time // micros(HOUR)
        # Events are in order, so those of one key and hour are adjacent. Only new ones count: open ones were counted before.
        is_first = np.diff(looked_at.key_number, prepend=-1) != 0
        is_first[1:] |= np.diff(hour) != 0
        begins = np.flatnonzero(is_first)
        counts = np.add.reduceat(looked_at.is_new.astype(np.int64), begins) if len(begins) else begins.astype(np.int64)
        came = looked_at.events[begins].select(
            *self.key, period_start(pl.col(self.event_time), HOUR).alias(self.event_time), pl.Series(CHECKED, counts)
        )
        hours = pl.concat([counted.select(came.columns), came.filter(pl.col(CHECKED) > 0)])
        hours = hours.group_by(*self.key, self.event_time).agg(pl.col(CHECKED).sum())
        end = pl.col(self.event_time) + HOUR
        hours = hours.with_columns(pl.lit(COUNTED).alias(ROLE), end.alias(DEADLINE))
        goes_on = hours[DEADLINE] > clock.watermark
        over = hours.filter(~goes_on).select(
            *self.key, pl.col(self.event_time).alias(HOUR_START), pl.col(CHECKED).alias(EVENTS)
        )
        return hours.filter(goes_on), over
