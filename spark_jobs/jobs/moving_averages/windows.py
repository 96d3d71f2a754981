"""Readings take their place in their station's session, and each window that is full enough gives its averages."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from keyfold import Clock, Step
from keyfold.keyed.job import Timeout
from keyfold.keyed.rows.codec import empty
from keyfold.operators.ordering import in_order
from keyfold.times import micros, to_micros, to_times
from spark_jobs.jobs.moving_averages.tables import KEY, STATION_SESSION, averages_schema
from spark_jobs.jobs.trailing_windows import trailing_means

_IS_LAST_OF_STATION = (pl.col("station_id") != pl.col("station_id").shift(-1)).fill_null(value=True)


class Window(NamedTuple):
    """What a window is.

    Attributes:
        columns: whose values are averaged.
        n_readings: in a full window.
        first_row_at: how many readings a session has when it gives its first row.
        silence: what ends a station's session.
    """

    columns: tuple[str, ...]
    n_readings: int
    first_row_at: int
    silence: Timeout


def move_windows(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, window: Window) -> Step:
    """The step: see the job's text. Every reading waits, is counted in an open session, has left in one, or is late."""
    is_late = events["time"] <= clock.late_watermark
    late = events.filter(is_late)
    on_time = events.filter(~is_late) if late.height else events
    over, state = window.silence.part(state, KEY, clock)
    coming = on_time.with_columns(
        session_start=pl.lit(None, pl.Datetime("us", "UTC")), n_events=pl.lit(1, pl.Int64), deadline=pl.col("time")
    )
    rows = pl.concat([state.select(coming.columns), coming])
    is_due = (rows["deadline"] <= clock.watermark).fill_null(value=False)
    waits = rows["session_start"].is_null() & ~is_due
    ended = [_Stations(over.select(coming.columns), clock, window, is_over=True)] if over.height else []
    moved = [_Stations(rows.filter(~waits), clock, window)] if is_due.any() else []
    # Those that have ended come first: their stations may have begun anew.
    averages = pl.concat([empty(averages_schema(window.columns)), *(one.averages() for one in (*ended, *moved))])
    sessions = [empty(STATION_SESSION), *(one.closed_sessions() for one in (*ended, *moved))]
    if moved:
        rows = pl.concat([moved[0].state(), rows.filter(waits)])
    latest = averages.filter(_IS_LAST_OF_STATION)
    if ended:
        # One that has begun anew has a row of each.
        latest = latest.unique(KEY, keep="last", maintain_order=True)
    return Step(
        state=window.silence.renew(rows, state, on_time, KEY, clock),
        output=averages,
        late=late,
        side={
            "latest_moving_averages": latest,
            "station_sessions": pl.concat(sessions),
        },
    )


class _Stations:
    """All readings in hand that the watermark has passed, station by station in time order, cut into sessions.

    Arrays named by the row have one value a reading; `session` leads from a reading to its session, whose arrays are
    `first` and `last` (its readings in hand), `n_events` (its readings so far) and `closed`.

    Args:
        passed: the readings.
        clock: of the batch.
        window: of the job.
        is_over: whether their stations have fallen silent in processing time, so that every session has ended.
    """

    def __init__(self, passed: pl.DataFrame, clock: Clock, window: Window, *, is_over: bool = False) -> None:
        self._window = window
        ordered = in_order(passed, KEY, "time", window.columns)
        self._readings, begins = ordered.events, ordered.begins_key
        self._times = to_micros(self._readings["time"])
        timeout, watermark = micros(window.silence.after), micros(clock.watermark)
        self._in_event_time = window.silence.in_event_time
        begins_session = begins.copy()
        if self._in_event_time:
            begins_session[1:] |= np.diff(self._times) > timeout
        self._first = np.flatnonzero(begins_session)
        self._last = np.append(self._first[1:] - 1, len(self._times) - 1)
        self._n_events = np.add.reduceat(self._readings["n_events"].to_numpy(), self._first)
        self._deadline = self._times[self._last] + timeout
        # A session is also over where a later one of its station has begun, however far the watermark is.
        followed = np.append(~begins[self._first[1:]], False)
        self._closed = (
            (followed | (self._deadline <= watermark)) if self._in_event_time else np.full(len(followed), is_over)
        )
        self._never_filled = self._closed & (self._n_events < window.first_row_at)

    def averages(self) -> pl.DataFrame:
        """One row a reading that has just passed, where its session has enough; of sessions that never had, one row."""
        session, position = self._positions()
        count = position + (self._n_events - (self._last - self._first))[session]
        gives_row = self._readings["session_start"].is_null().to_numpy() & (count >= self._window.first_row_at)
        gives_row[self._last[self._never_filled]] = True
        rows = np.flatnonzero(gives_row)
        n_readings = np.minimum(count[rows], self._window.n_readings)
        return pl.DataFrame(
            {
                "station_id": self._readings["station_id"].gather(rows),
                "start_time": to_times(self._times[rows - n_readings + 1]),
                "end_time": to_times(self._times[rows]),
                **{f"{column}_avg": self._average(column, position, rows) for column in self._window.columns},
                "n_readings": n_readings,
            }
        ).with_columns(
            reason=pl.when(pl.col("n_readings") == self._window.n_readings)
            .then(pl.lit("WINDOW_FULL"))
            .when(pl.col("n_readings") >= self._window.first_row_at)
            .then(pl.lit("WINDOW_FILLING"))
            .otherwise(pl.lit("TIMEOUT"))
        )

    def state(self) -> pl.DataFrame:
        """What open sessions need for the readings to come."""
        session, _ = self._positions()
        from_end = self._last[session] - np.arange(len(session))
        # One reading at least, though a window of one needs none: it has the session's count and deadline.
        rows = np.flatnonzero(~self._closed[session] & (from_end < max(self._window.n_readings - 1, 1)))
        session, is_last = session[rows], pl.Series(from_end[rows] == 0)
        return self._readings[rows].with_columns(
            session_start=to_times(self._starts()[session]),
            n_events=pl.when(is_last).then(pl.Series(self._n_events[session])).otherwise(0),
            deadline=pl.when(is_last & self._in_event_time).then(to_times(self._deadline[session])),
        )

    def closed_sessions(self) -> pl.DataFrame:
        closed = self._last[self._closed]
        return pl.DataFrame(
            {
                "station_id": self._readings["station_id"].gather(closed),
                "start_time": to_times(self._starts()[self._closed]),
                "end_time": to_times(self._times[closed]),
                "n_readings": self._n_events[self._closed],
            }
        ).with_columns(reason=pl.lit("TIMEOUT"))

    def _positions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Each reading's session, and its place among the session's readings in hand."""
        session = np.repeat(np.arange(len(self._first)), self._last - self._first + 1)
        return session, np.arange(len(session)) - self._first[session]

    def _starts(self) -> npt.NDArray[np.int64]:
        """When each session's first reading was, in hand or not."""
        known = self._readings["session_start"].gather(self._first)
        return to_micros(known.fill_null(to_times(self._times[self._first])))

    def _average(self, column: str, position: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> pl.Series:
        values = self._readings[column].cast(pl.Float64).to_numpy()
        means = trailing_means(values, position, self._window.n_readings)
        return pl.Series(means[rows]).fill_nan(None)
