"""Cut a ride's points where the ride closes, and sum those that the watermark has passed.

A stretch is one or more consecutive points of a ride: a single point, or the sums of all points up to the watermark. Only the
first stretch of a ride has more than one point, since no earlier point can still arrive. Distances are whole micrometres, so
that the order of adding does not matter.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from keyfold.columns import plain_columns
from keyfold.keyed.rows.exact_sums import in_int64, sums_from
from keyfold.operators.ordering import in_order
from keyfold.stream import TIMESTAMP
from keyfold.times import micros, to_micros, to_times
from spark_jobs.jobs.motion import leg_in_micrometres

STRETCH = pa.schema(
    [
        pa.field("ride_id", pa.string(), nullable=False),
        pa.field("start_time", TIMESTAMP),
        pa.field("start_status", pa.string()),
        *plain_columns(pa.int64(), "n_points", "distance"),
        pa.field("point_idx", pa.int32()),
        *plain_columns(pa.float64(), "latitude", "longitude"),
        pa.field("timestamp", TIMESTAMP),
        pa.field("meter_reading", pa.float64()),
        pa.field("ride_status", pa.string()),
        *plain_columns(pa.float64(), "start_latitude", "start_longitude"),
    ]
)
"""Consecutive points of one ride: time, place and status of the first, and all columns of the last.

Without `start_time` it is one point. A stretch that was summed before state had the start place has NULL there.
"""

TIES = ("point_idx", "latitude", "longitude", "meter_reading", "ride_status")
"""Columns that order points of a ride with the same time."""

_NO_TIME = timedelta(0)

Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


class Rules(NamedTuple):
    """The rules for closing a ride, and the watermark.

    Attributes:
        timeout: silence after the last point that closes a ride without a dropoff; None if the timeout is in processing time
            (see `is_over`).
        silence: longest time between two points of one ride; after a longer one, the ride was closed. None: no limit.
        closed_for: for how long after the close the ride's points are late.
        at_once: whether a dropoff closes its ride as soon as it arrives, or when the watermark has passed it.
        watermark: the watermark.
        is_over: whether the rides have timed out in processing time, and close now.
    """

    timeout: timedelta | None
    silence: timedelta | None
    closed_for: timedelta
    at_once: bool
    watermark: datetime
    is_over: bool = False


class Cut(NamedTuple):
    """The result of cutting stretches.

    Attributes:
        closed: one row per closed ride, with `start_time`, `end_time`, `distance` and more; `closed_at` is NULL if the close
            has no event time.
        still_open: stretches of open rides; the first of each ride has the ride's `deadline`.
        late: points after their ride's close.
    """

    closed: pl.DataFrame
    still_open: pl.DataFrame
    late: pl.DataFrame


def cut(stretches: pl.DataFrame, rules: Rules) -> Cut:
    """Order stretches by time, close the rides that are due, and sum the stretches of the others."""
    return _Rides(stretches, rules).cut()


class _Rides:
    """All stretches, ordered by ride and time; arrays have one value per row.

    `ends` are the rows after which a ride closes, unless it has closed before, and the last row of each ride.
    """

    def __init__(self, stretches: pl.DataFrame, rules: Rules) -> None:
        self._rules = rules
        ordered = in_order(stretches, ("ride_id",), "timestamp", TIES)
        self._rows, self._ride = ordered.events, ordered.key_number
        self._starts, self._lasts = ordered.starts, ordered.lasts
        self._time = to_micros(self._rows["timestamp"])
        self._places = self._rows.select("latitude", "longitude")
        self._drops_off = (self._rows["ride_status"] == "dropoff").to_numpy()
        is_end = self._drops_off.copy()
        if rules.silence is not None:
            is_end[:-1] |= np.diff(self._time) > micros(rules.silence)
        is_end[self._lasts] = True
        self._ends = np.flatnonzero(is_end)
        self._n_points = self._rows["n_points"].to_numpy()
        self._distance = self._rows["distance"].fill_null(0).cast(pl.Int128)
        self._n_points_until = np.cumsum(self._n_points)

    def cut(self) -> Cut:
        rules, watermark = self._rules, micros(self._rules.watermark)
        closed, still_open, late = [], [], [self._rows.clear()]
        first, last = self._starts, self._lasts
        # Loops more than once only if a ride's id is used again after `closed_for`.
        while first.size or not closed:
            end = self._ends[np.searchsorted(self._ends, first)]
            drops_off = self._drops_off[end]
            closed_at = self._time[end] + np.where(drops_off, 0, micros(rules.timeout or _NO_TIME))
            has_time = drops_off | (rules.timeout is not None)
            closes = (has_time & (closed_at <= watermark)) | (drops_off & rules.at_once) | rules.is_over
            times = pl.select(pl.when(pl.Series(has_time)).then(to_times(closed_at))).to_series()
            closed.append(self._summed(first[closes], end[closes], times.filter(pl.Series(closes))))
            still_open.append(self._folded(first[~closes], last[~closes], times.filter(pl.Series(~closes))))
            goes_on = closes & (end < last)
            first, last, closed_at = end[goes_on] + 1, last[goes_on], closed_at[goes_on]
            ride, rows = _ranges(first, last)
            is_late = self._time[rows] <= closed_at[ride] + micros(rules.closed_for)
            late.append(self._rows[rows[is_late]])
            # Late points come before the others.
            first = first + np.bincount(ride[is_late], minlength=first.size)
            first, last = first[first <= last], last[first <= last]
        return Cut(pl.concat(closed), pl.concat(still_open), pl.concat(late))

    def _summed(self, first: Rows, last: Rows, closed_at: pl.Series) -> pl.DataFrame:
        """Build one row per closed ride."""
        begins, ends = self._rows[first], self._rows[last]
        return pl.DataFrame(
            {
                "ride_id": begins["ride_id"],
                **_start(begins),
                "end_time": ends["timestamp"],
                "end_status": ends["ride_status"],
                "n_points": self._n_points_of(first, last),
                "distance": self._distance_of(first, last),
                "fare": ends["meter_reading"],
                "closed_at": closed_at,
            }
        )

    def _folded(self, first: Rows, last: Rows, deadline: pl.Series) -> pl.DataFrame:
        """Return the state of open rides: passed points joined to one stretch, the other points unchanged."""
        passed_until = np.append(0, np.cumsum(self._time <= micros(self._rules.watermark)))
        n_passed = passed_until[last + 1] - passed_until[first]
        head = first + np.maximum(n_passed - 1, 0)
        ride, rows = _ranges(head, last)
        kept = self._rows[rows]
        heads = np.flatnonzero(np.diff(ride, prepend=-1))
        folded, begins = heads[head > first], self._rows[first[head > first]]
        first, head = first[head > first], head[head > first]
        return kept.with_columns(
            *(kept[name].scatter(folded, of_first) for name, of_first in _start(begins).items()),
            kept["n_points"].scatter(folded, self._n_points_of(first, head)),
            kept["distance"].scatter(folded, self._distance_of(first, head)),
            pl.Series("deadline", [None], pl.Datetime("us", "UTC"))
            .new_from_index(0, kept.height)
            .scatter(heads, deadline),
        )

    def _n_points_of(self, first: Rows, last: Rows) -> Numbers:
        return self._n_points_until[last] - self._n_points_until[first] + self._n_points[first]

    def _distance_of(self, first: Rows, last: Rows) -> Numbers:
        # Only the first stretch contains a distance.
        distance = self._distance.gather(first)
        longer = last > first
        _, rows = _ranges(first[longer], last[longer])
        if rows.size:
            lengths = (last - first + 1)[longer]
            starts = np.cumsum(lengths) - lengths
            legs = self._places[rows].select(_LEG).to_series().to_numpy().copy()
            legs[starts] = 0
            summed = np.flatnonzero(longer)
            distance = distance.scatter(summed, distance.gather(summed) + sums_from(starts, legs))
        return in_int64(distance, "distance", self._rows["ride_id"].gather(first))


def _ranges(first: Rows, last: Rows) -> tuple[Rows, Rows]:
    """Return all rows from each first to its last, and the number of the range of each."""
    lengths = last - first + 1
    place = np.repeat(np.arange(first.size), lengths)
    return place, np.arange(place.size) + (first - (np.cumsum(lengths) - lengths))[place]


def _start(stretches: pl.DataFrame) -> dict[str, pl.Series]:
    """Return time, status, latitude and longitude of the first point of each stretch."""
    is_point = pl.col("start_time").is_null()
    return stretches.select(
        pl.coalesce("start_time", "timestamp").alias("start_time"),
        pl.coalesce("start_status", "ride_status").alias("start_status"),
        *(
            pl.when(is_point).then(name).otherwise(f"start_{name}").alias(f"start_{name}")
            for name in ("latitude", "longitude")
        ),
    ).to_dict()


_LEG = leg_in_micrometres(
    pl.col("latitude").shift(), pl.col("longitude").shift(), pl.col("latitude"), pl.col("longitude")
)
"""Distance from the previous point in micrometres."""
