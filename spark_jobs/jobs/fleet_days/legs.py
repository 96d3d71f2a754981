"""Classify the legs between a vehicle's consecutive points: trip, stand, or not known yet."""

from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from keyfold.operators.ordering import in_order
from keyfold.times import micros, to_micros, to_times
from spark_jobs.jobs.motion import leg_in_micrometres

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Legs:
    """Points ordered by vehicle and time, and the legs that begin at them.

    Args:
        points: rows of the roles `passed` and `waiting`, all of which the watermark has passed.
        moving_speed: speed above which a point is moving.
        stop_after: duration from which a stand is not a pause of a trip.
        silence: longest time between two points of a leg.

    Attributes:
        vehicles: the vehicle of each point.
        time: the time of each point, in microseconds.
        begins_vehicle: whether a point is the first of its vehicle here.
        is_new: whether a point is counted now; others were counted before, and are here for the leg that begins at them.
        is_known: whether a leg to the next point exists and is classified.
        of_legs: distance, moving, idle and stopped time of each leg.
        of_points: trips, fuel used, readings and points of each point.
    """

    def __init__(
        self, points: pl.DataFrame, moving_speed: float, stop_after: timedelta, silence: timedelta, watermark: datetime
    ) -> None:
        ordered = in_order(points, ("vehicle_id",), "time", ("latitude", "longitude", "speed", "fuel"))
        rows = self._rows = ordered.events
        self.vehicles, self.time = rows["vehicle_id"], to_micros(rows["time"])
        self.begins_vehicle, self._lasts = ordered.begins_key, ordered.lasts
        self.is_new = (rows["role"] == "waiting").to_numpy()
        self._stop_after, self._silence, self._watermark = micros(stop_after), micros(silence), micros(watermark)
        self._moves = (rows["speed"] > moving_speed).to_numpy()

        self._begins_way = self.begins_vehicle.copy()
        self._begins_way[1:] |= self.time[1:] - self.time[:-1] > self._silence
        begins_run = self._begins_way.copy()
        begins_run[1:] |= self._moves[1:] != self._moves[:-1]
        self._run = np.flatnonzero(begins_run)
        self._run_of = np.cumsum(begins_run) - 1
        self._judge_stands()
        self.of_legs = self._sum_legs()
        self.of_points = {
            "trips": self._starts_trip(),
            **self._fuel(),
            "n_points": self.is_new.astype(np.int64),
        }

    def _judge_stands(self) -> None:
        """Decide for each run of standing points whether it is a pause of a trip, and whether that is known already."""
        run, rows = self._run, self._rows
        may_pause = rows["may_pause"].fill_null(value=False).to_numpy()
        is_behind_trip = ~self._moves[run] & (~self._begins_way[run] | may_pause[run])
        is_followed = np.append(~self._begins_way[run[1:]], False)
        until_next = np.append(self.time[run[1:]] - self.time[run[:-1]], 0)
        self._is_pause = is_behind_trip & is_followed & (until_next < self._stop_after)
        last = np.append(run[1:] - 1, rows.height - 1)
        self._is_last = np.zeros(rows.height, dtype=bool)
        self._is_last[self._lasts] = True
        # A long stand, a silence, or a point after a silence decides it.
        self._is_undecided = (
            is_behind_trip
            & self._is_last[last]
            & (self.time[last] + self._silence > self._watermark)
            & (self.time[run] + self._stop_after > self._watermark)
        )

    def _sum_legs(self) -> dict[str, Numbers]:
        has_leg = np.append(~self._begins_way[1:], False)
        took = np.where(has_leg, np.append(self.time[1:] - self.time[:-1], 0), 0)
        self.is_known = has_leg & ~self._is_undecided[self._run_of]
        is_idle = self.is_known & self._is_pause[self._run_of]
        is_stopped = self.is_known & ~self._moves & ~is_idle
        is_of_trip = (self.is_known & self._moves) | is_idle
        distance = self._rows.select(_TO_NEXT).to_series().to_numpy()
        return {
            "distance": np.where(is_of_trip, distance, 0),
            "moving": np.where(self.is_known & self._moves, took, 0),
            "idle": np.where(is_idle, took, 0),
            "stopped": np.where(is_stopped, took, 0),
        }

    def _starts_trip(self) -> Numbers:
        """Return 1 at each new point that starts a trip: a moving point after a stand that is not a pause, or a first point."""
        goes_on = np.append(False, self._is_pause[:-1]) & ~self._begins_way[self._run]
        starts = np.zeros(self._rows.height, dtype=np.int64)
        starts[self._run[self._moves[self._run] & ~goes_on]] = 1
        return np.where(self.is_new, starts, 0)

    def _fuel(self) -> dict[str, Numbers]:
        """Sum the falls from the previous reading without a silence between; `last_read` is kept for the next reading."""
        fuel, index = self._rows["fuel"], np.arange(self._rows.height)
        is_read, level = fuel.is_not_null().to_numpy(), fuel.fill_null(0).to_numpy()
        way = np.maximum.accumulate(np.where(self._begins_way, index, 0))
        read = np.maximum.accumulate(np.where(is_read, index, -1))
        before = np.append(-1, read[:-1])
        # Levels are not negative (a rule of the stream), so that no difference overflows.
        falls = np.where(is_read & (before >= way), np.maximum(level[before] - level, 0), 0)
        self._last_read = pl.Series(level[read], dtype=pl.Int64).set(pl.Series(read < way), None)
        counts = self.is_new & is_read
        return {"fuel_used": np.where(counts, falls, 0), "n_readings": counts.astype(np.int64)}

    def kept(self) -> pl.DataFrame:
        """Return the points to keep for later legs: each vehicle's last point until it is silent, with an undecided stand."""
        is_recent = (self.time[self._lasts] + self._silence > self._watermark)[np.cumsum(self.begins_vehicle) - 1]
        may_pause = self._is_undecided[self._run_of]
        kept = np.flatnonzero((self._is_last | may_pause) & is_recent)
        silent = (self.time[self._lasts] + self._silence)[np.cumsum(self.begins_vehicle) - 1][kept]
        stands = self.time[self._run[self._run_of[kept]]] + self._stop_after
        return self._rows[kept].select(
            "vehicle_id",
            "time",
            "latitude",
            "longitude",
            "speed",
            role=pl.lit("passed"),
            # Only on the last point: earlier readings are counted.
            fuel=self._last_read.gather(kept).set(pl.Series(~self._is_last[kept]), None),
            may_pause=pl.Series(may_pause[kept]),
            deadline=to_times(np.where(may_pause[kept], np.minimum(stands, silent), silent)),
        )


_TO_NEXT = leg_in_micrometres(
    pl.col("latitude"), pl.col("longitude"), pl.col("latitude").shift(-1), pl.col("longitude").shift(-1)
)
"""Distance to the next row in micrometres."""
