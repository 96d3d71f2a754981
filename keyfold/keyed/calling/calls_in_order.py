"""Call a job's step for a batch: a key's events up to its deadline, then the deadline, then the events after it.

So a step that knows nothing of the order of events and deadlines gives the same rows however runs are cut. The operator of the
engine and the harness in memory both use it, so that a job behaves the same in tests and in runs.
"""

from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold.keyed.calling.phases import NEVER, Call, Flags, Phases, Positions, Span, Timers, Times
from keyfold.keyed.calling.step_call import Called, call_once, refuse_other_keys, within_calendar
from keyfold.keyed.calling.upserts import keys_of, one_row_per_key
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import are_late
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, InOneCall
from keyfold.times import from_micros, micros

_OWNER, _IS_ADDED = "#key", "#added"


def call_step(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Called:
    """Call the step for a batch, as often as its keys' deadlines and events follow each other.

    A key that has timed out in processing time has its call before the batch's events, which all arrive at one moment. See
    `phases` for event time. A step that keeps that order itself is called once (`InOneCall`), besides for keys that have timed
    out in processing time.

    Args:
        state: the rows of keys with events or a due timer.
        events: the events of these keys.

    Raises:
        AnswerError: the step did not return a `Step` of frames, or columns or tables differ from the declared ones, or rows are
            of keys that it was not called with; names them.
    """
    has_timers = not {DEADLINE, PROCESSING_DEADLINE}.isdisjoint(state.columns)
    if not has_timers or (isinstance(job.step, InOneCall) and not _has_expired(state, clock)):
        called = call_once(job, state, events, clock)
    else:
        called = _called(job, state, events, clock)
    # As tables have them: a key that is a time may be outside of the calendar.
    return one_row_per_key(job, called, within_calendar(keys_of(job, state, events)))


def _called(job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Called:
    is_late = are_late(job.inputs, events, clock.previous_watermark)
    calls = _Calls(job, state, events.filter(~is_late), clock)
    if isinstance(job.step, InOneCall):
        calls.in_one_call()
    else:
        calls.in_order()
    return calls.result(events.filter(is_late))


def _has_expired(state: pl.DataFrame, clock: Clock) -> bool:
    return PROCESSING_DEADLINE in state.columns and bool((state[PROCESSING_DEADLINE] <= clock.processing_time).any())


class _Given(NamedTuple):
    """The events of a batch, sorted by key and time: their order, their times, and the position of the first of each key."""

    order: Positions
    times: Times
    begins: Positions


class _Calls:
    """Calls of a step in a batch, and the rows of state and tables that they have made so far."""

    def __init__(self, job: KeyedJob, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> None:
        self._job, self._events, self._clock = job, events, clock
        keys = keys_of(job, state, events)
        self._keys = keys.unique(maintain_order=True)
        of_state, owners = np.split(self._owners(self._keys, keys), [state.height])
        times = events[job.event_time].to_physical().to_numpy()
        order = np.lexsort((times, owners))
        begins = np.searchsorted(owners[order], np.arange(self._keys.height + 1))
        self._given = _Given(order, times[order], begins)
        # Rows of keys that are called before the end of the batch, at its end, and no more.
        self._active = self._owned(state, of_state, is_added=False)
        self._waiting, self._finished = [self._active.clear()], [self._active.clear()]
        self._tables: dict[str, list[pl.DataFrame]] = defaultdict(list)
        self._is_dropped, self._has_changes = np.zeros(self._keys.height, bool), False

    def in_order(self) -> None:
        """Call the step for each phase of its keys."""
        owners = self._active[_OWNER].to_numpy()
        phases = Phases(self._span(), self._given.times, self._given.begins, _timers(self._active, owners))
        self._sort(self._active, phases)
        end = micros(self._clock.watermark)
        while (call := phases.next_call()) is not None:
            if call.watermark == end and self._waiting:
                self._active, self._waiting = pl.concat([self._active, *self._waiting]), []
            rows = self._taken(call)
            called, after, timers = self._called(call, rows)
            if phases.divide(call, timers):
                after = rows
            else:
                phases.done(call, timers)
                self._add(call, called)
            self._sort(after, phases)

    def in_one_call(self) -> None:
        """Call the step once with all events; before it, for the keys that have timed out in processing time."""
        is_over = (self._active[PROCESSING_DEADLINE] <= self._clock.processing_time).fill_null(value=False)
        expired = np.unique(self._active[_OWNER].to_numpy()[is_over.to_numpy()])
        begins, clock = self._given.begins, self._clock
        start, end = micros(clock.previous_watermark), micros(clock.watermark)
        has_events = begins[expired] < begins[expired + 1]
        heard, silent = expired[has_events], expired[~has_events]
        others = np.setdiff1d(np.arange(self._keys.height), silent)
        calls = [
            # By its events the step sees what event time has ended: until then, it closes by processing time alone.
            Call(heard, begins[heard], begins[heard], start),
            Call(silent, begins[silent], begins[silent], end),
            Call(others, begins[others], begins[others + 1], end),
        ]
        for call in calls:
            if call.keys.size:
                called, after, _ = self._called(call, self._taken(call))
                self._add(call, called)
                self._active = pl.concat([self._active, after])

    def result(self, late: pl.DataFrame) -> Called:
        """Return what the calls have made together.

        Args:
            late: the late events, which none of them got.
        """
        if late.height:
            self._tables[self._job.late_table].insert(0, late)
        tables = {name: pl.concat(frames) for name, frames in self._tables.items()}
        rows = pl.concat([self._active, *self._waiting, *self._finished])
        if not self._has_changes:
            return Called(rows.drop(_OWNER, _IS_ADDED), tables)
        return Called(
            rows.filter(_IS_ADDED).drop(_OWNER, _IS_ADDED), tables, self._keys.filter(pl.Series(self._is_dropped))
        )

    def _called(self, call: Call, rows: pl.DataFrame) -> tuple[Called, pl.DataFrame, Timers]:
        """Call the step; returns its result, and the rows of its keys after it with their timers."""
        events = self._events.clear()
        if (call.end > call.first).any():
            # In the order in which they came, which is the same when the batch is repeated.
            positions = np.sort(self._given.order[_ranges(call.first, call.end)])
            events = self._events[positions]
        called = call_once(self._job, rows.drop(_OWNER, _IS_ADDED), events, self._at(call.watermark))
        keys = self._keys[call.keys]
        added = self._owned(called.state, call.keys[self._owners(keys, called.state)], is_added=True)
        if called.dropped is None:
            after = added
        else:
            dropped = call.keys[self._owners(keys, called.dropped)]
            after = pl.concat([rows.filter(~pl.col(_OWNER).is_in(dropped)), added])
        place = np.zeros(self._keys.height, np.intp)
        place[call.keys] = np.arange(call.keys.size)
        return called, after, _timers(after, place[after[_OWNER].to_numpy()])

    def _add(self, call: Call, called: Called) -> None:
        """Keep what a call has made, besides its rows of state."""
        for name, rows in called.tables.items():
            self._tables[name].append(rows)
        if called.dropped is None:
            self._is_dropped[call.keys] = True
        else:
            self._has_changes = True
            self._is_dropped[call.keys[self._owners(self._keys[call.keys], called.dropped)]] = True

    def _taken(self, call: Call) -> pl.DataFrame:
        """Take the rows of a call's keys."""
        is_called = np.zeros(self._keys.height, bool)
        is_called[call.keys] = True
        is_taken = is_called[self._active[_OWNER].to_numpy()]
        rows, self._active = _where(self._active, is_taken), _where(self._active, ~is_taken)
        return rows

    def _sort(self, rows: pl.DataFrame, phases: Phases) -> None:
        """Put rows where they wait for the next call of their keys."""
        owners = rows[_OWNER].to_numpy()
        is_done = phases.are_done(owners)
        # At the end of the batch, there is one place for all.
        waits = phases.are_last(owners) & ~is_done if self._waiting else np.zeros(owners.size, bool)
        if rows is self._active:
            self._active = rows.clear()
        if is_done.any():
            self._finished.append(_where(rows, is_done))
        if waits.any():
            self._waiting.append(_where(rows, waits))
        active = _where(rows, ~is_done & ~waits)
        self._active = pl.concat([self._active, active], rechunk=self._active.n_chunks() > _MOST_CHUNKS)

    def _owners(self, keys: pl.DataFrame, rows: pl.DataFrame) -> Positions:
        """Return the position of each row's key among keys.

        Raises:
            AnswerError: a row has another key.
        """
        named = keys.with_row_index(_OWNER)
        owners = rows.select(self._job.key).join(named, on=self._job.key, how="left", maintain_order="left")[_OWNER]
        if owners.null_count():
            refuse_other_keys(self._job, rows.filter(owners.is_null()))
        return owners.to_numpy().astype(np.intp)

    def _owned(self, rows: pl.DataFrame, owners: Positions, *, is_added: bool) -> pl.DataFrame:
        return rows.with_columns(pl.Series(_OWNER, owners, pl.Int64), pl.lit(is_added).alias(_IS_ADDED))

    def _span(self) -> Span:
        clock = self._clock
        start, end, now = map(micros, (clock.previous_watermark, clock.watermark, clock.processing_time))
        return Span(start, end, now, self._delay)

    @property
    def _delay(self) -> int:
        """The longest delay of the inputs, without idle ones, which the watermark has left behind."""
        clock, inputs = self._clock, self._job.inputs
        active = [name for name, at in clock.watermarks.items() if at >= clock.watermark]
        return max(micros(inputs[name].watermark_delay) for name in active or inputs)

    def _at(self, watermark: int) -> Clock:
        """Return the clock of a call."""
        clock, inputs = self._clock, self._job.inputs
        if watermark == micros(clock.watermark):
            return clock
        # Each input as far as events at one time bring it.
        watermarks = {
            name: min(at, from_micros(watermark + self._delay - micros(inputs[name].watermark_delay)))
            for name, at in clock.watermarks.items()
        }
        return replace(clock, watermark=from_micros(watermark), watermarks=watermarks)


_MOST_CHUNKS = 64
"""Chunks of a frame, after which they are joined: each operation costs some microseconds per chunk."""


def _where(rows: pl.DataFrame, is_there: Flags) -> pl.DataFrame:
    """Return the rows for which a flag is set."""
    # Often all or none: a filter costs more than all else in a call of few rows.
    return rows if is_there.all() else rows.filter(pl.Series(is_there)) if is_there.any() else rows.clear()


def _timers(rows: pl.DataFrame, owners: Positions) -> Timers:
    never = np.full(rows.height, NEVER)
    deadlines, processing_deadlines = (
        rows[name].to_physical().fill_null(NEVER).to_numpy() if name in rows.columns else never
        for name in (DEADLINE, PROCESSING_DEADLINE)
    )
    return Timers(owners, deadlines, processing_deadlines)


def _ranges(first: Positions, end: Positions) -> Positions:
    """Return the positions from each first one to its end."""
    counts = end - first
    return np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
