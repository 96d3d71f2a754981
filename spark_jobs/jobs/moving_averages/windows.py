"""Assign readings to sessions of their station, and average the trailing window at each reading."""

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

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

_CHUNK = 32_768
"""Number of values processed at a time, so that they fit a processor's cache."""

_IS_LAST_OF_STATION = (pl.col("station_id") != pl.col("station_id").shift(-1)).fill_null(value=True)


class Window(NamedTuple):
    """The settings of the windows.

    Attributes:
        columns: the columns to average.
        n_readings: the number of readings in a full window.
        first_row_at: the number of readings from which a session writes rows.
        silence: the timeout that ends a station's session.
    """

    columns: tuple[str, ...]
    n_readings: int
    first_row_at: int
    silence: Timeout


def move_windows(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, window: Window) -> Step:
    """Run one batch of the job; see the job's description.

    Each reading waits for the watermark, is counted in an open or a closed session, or is late.
    """
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
    # Ended sessions come first, since their stations may have started new ones in this batch.
    averages = pl.concat([empty(averages_schema(window.columns)), *(one.averages() for one in (*ended, *moved))])
    sessions = [empty(STATION_SESSION), *(one.closed_sessions() for one in (*ended, *moved))]
    if moved:
        rows = pl.concat([moved[0].state(), rows.filter(waits)])
    latest = averages.filter(_IS_LAST_OF_STATION)
    if ended:
        # A station that started a new session has one row from each; keep the newer.
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
    """Readings from state and batch that the watermark has passed, sorted by station and time, and split into sessions.

    Some arrays have one value per reading, and others one per session. `session` maps a reading to its session. `_first` and
    `_last` are the rows of a session's readings here, `_n_events` is its number of readings so far, including those no longer
    in state.

    Args:
        passed: the readings.
        window: the job's settings.
        is_over: whether the stations timed out in processing time, so that every session has ended.
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
        # A session has also ended if its station has started a later one, whatever the watermark.
        followed = np.append(~begins[self._first[1:]], False)
        self._closed = (
            (followed | (self._deadline <= watermark)) if self._in_event_time else np.full(len(followed), is_over)
        )
        self._never_filled = self._closed & (self._n_events < window.first_row_at)

    def averages(self) -> pl.DataFrame:
        """Return one row per newly passed reading once its session has enough; one row for a session that ends with fewer."""
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
        """Return the readings of open sessions that later windows need."""
        session, _ = self._positions()
        from_end = self._last[session] - np.arange(len(session))
        # Keep at least one reading, even for windows of one: it has the session's count and deadline.
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
        """Return the session of each reading, and its position among the session's readings here."""
        session = np.repeat(np.arange(len(self._first)), self._last - self._first + 1)
        return session, np.arange(len(session)) - self._first[session]

    def _starts(self) -> npt.NDArray[np.int64]:
        """Return the time of each session's first reading, which may no longer be in state."""
        known = self._readings["session_start"].gather(self._first)
        return to_micros(known.fill_null(to_times(self._times[self._first])))

    def _average(self, column: str, position: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> pl.Series:
        values = self._readings[column].cast(pl.Float64).to_numpy()
        means = trailing_means(values, position, self._window.n_readings)
        return pl.Series(means[rows]).fill_nan(None)


def trailing_means(values: Floats, position: Positions, length: int) -> Floats:
    """Average each value with those before it in its run, up to `length` values.

    A window is summed as a tree of blocks of 1, 2, 4, … values, whose shape depends only on `length`. So an average depends
    only on its window, unlike a running sum with subtraction. It takes about 2 log2(length) additions per value, and its
    rounding error grows with the tree's height, not with `length`.

    Args:
        values: values, run after run; NaN marks a missing value, which averages ignore.
        position: the position of each value in its run, from 0.
        length: the length of a window, at least 1.

    Returns:
        One average per value; NaN if all values of its window are missing.
    """
    means = np.empty(len(values))
    chunk = max(_CHUNK, 4 * length)
    for start in range(0, len(values), chunk):
        begin = max(0, start - length + 1)
        part = slice(begin, start + chunk)
        means[start : start + chunk] = _means(values[part], position[part], length)[start - begin :]
    return means


def _means(values: Floats, position: Positions, length: int) -> Floats:
    is_missing = np.isnan(values)
    with np.errstate(invalid="ignore", over="ignore"):
        if not is_missing.any():
            return _sums(values, position, length) / np.minimum(position + 1, length)
        sums = _sums(np.where(is_missing, 0.0, values), position, length)
        return sums / _sums((~is_missing).astype(np.float64), position, length)


def _sums(values: Floats, position: Positions, length: int) -> Floats:
    total: Floats | None = None
    reach, size = 0, 1
    blocks = values
    while True:
        # The window is made of one block for each binary digit of its length.
        if length & size:
            total = blocks if total is None else _plus_earlier(total, blocks, reach, position)
            reach += size
        if reach == length:
            return np.asarray(total)
        blocks = _plus_earlier(blocks, blocks, size, position)
        size *= 2


def _plus_earlier(later: Floats, earlier: Floats, distance: int, position: Positions) -> Floats:
    """Add to each value of `later` the value of `earlier` at `distance` before it, if both belong to the same run."""
    if distance >= len(later):
        return later
    sums = np.empty_like(later)
    sums[:distance] = later[:distance]
    np.add(later[distance:], earlier[:-distance], out=sums[distance:])
    alone = np.flatnonzero(position < distance)
    sums[alone] = later[alone]
    return sums
