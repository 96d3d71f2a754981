"""Join stretches to journeys of vehicles (trips and stops), cut where a vehicle stops, moves on or falls silent."""

from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from keyfold.keyed.rows.exact_sums import in_int64, sums_from
from keyfold.operators.ordering import in_order
from keyfold.times import ISO_FORMAT, micros, to_micros, to_times
from spark_jobs.jobs.vehicle_trips.stretches import LEG, POINT_AS_STRETCH, TOTALS

_NEVER = 2**62

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Limits(NamedTuple):
    """The rules for ending a trip, and the watermark.

    Attributes:
        stop_after: time without movement that ends a trip.
        silence: time without a point that ends a trip or stop; None if it is in processing time (see `is_over`).
        watermark: the watermark.
        is_over: whether the vehicles have timed out in processing time.
    """

    stop_after: timedelta
    silence: timedelta | None
    watermark: datetime
    is_over: bool = False


class Cut(NamedTuple):
    """Ended trips (`VEHICLE_TRIP`), ended stops (`VEHICLE_STOP`), and the stretches of open journeys."""

    trips: pl.DataFrame
    stops: pl.DataFrame
    still_open: pl.DataFrame


def cut(stretches: pl.DataFrame, limits: Limits) -> Cut:
    """Join stretches that the watermark has passed to trips and stops, and separate those that have ended."""
    # Two stretches of a vehicle in state never tie: the second begins after the first, by time or by the tie-breaker.
    of_first = ("start_fuel", "start_braking", "start_accelerating", "start_heat")
    ties = ("start_latitude", "start_longitude", "top_speed", *of_first)
    ordered = in_order(stretches, ("vehicle_id",), "start_time", ties)
    journeys = _Journeys(ordered.events.with_columns(POINT_AS_STRETCH), ordered.begins_key, limits)
    return Cut(journeys.trips(), journeys.stops(), journeys.still_open())


class _Journeys:
    """Stretches in order of time, grouped to journeys (trips or stops).

    `first` and `last` are the rows of a journey; `arrival` is the row at which a trip arrives, the first of the next stop.
    """

    def __init__(self, rows: pl.DataFrame, begins_vehicle: Flags, limits: Limits) -> None:
        self._rows = rows
        self._start, self._end = to_micros(rows["start_time"]), to_micros(rows["end_time"])
        self._moves = rows["is_moving"].to_numpy()
        stop_after, watermark = micros(limits.stop_after), micros(limits.watermark)
        silence = None if limits.silence is None else micros(limits.silence)

        after_silence = begins_vehicle.copy()
        if silence is not None:
            after_silence[1:] |= self._start[1:] - self._end[:-1] > silence
        self._first, arrives = _group(self._start, self._moves, after_silence, stop_after)
        self._last = np.append(self._first[1:] - 1, rows.height - 1)
        self._is_trip = self._moves[self._first]
        self._arrives = arrives & self._is_trip
        self._arrival = np.minimum(self._last + 1, rows.height - 1)

        # A journey has ended when another row of its vehicle follows, other than a trip's arrival, or when it is due.
        is_followed = np.append(~begins_vehicle[self._first[1:]], False)
        if silence is not None:
            falls_silent_at = self._end[self._last] + silence
        elif limits.is_over:
            # Only the last journey of a vehicle can fall silent: points followed the others.
            falls_silent_at = np.where(is_followed, _NEVER, self._end[self._last])
        else:
            falls_silent_at = np.full(len(self._last), _NEVER)
        # The journey after each one: for a trip that arrives, the stop at its arrival.
        stop = np.minimum(np.arange(1, len(self._first) + 1), len(self._first) - 1)
        stands_at = self._start[self._arrival] + stop_after
        self._stopped = self._arrives & (stands_at <= falls_silent_at[stop])
        due_at = np.where(self._arrives, np.minimum(stands_at, falls_silent_at[stop]), falls_silent_at)
        is_over = np.where(self._arrives, is_followed[stop], is_followed)
        self._has_ended = is_over | (due_at <= watermark) | limits.is_over
        self._moves_on = ~self._is_trip & np.append(~after_silence[self._first[1:]], False)
        self._deadline = due_at
        self._goes_on = np.ones(rows.height, dtype=bool)
        self._goes_on[self._first] = False
        self._number = np.cumsum(~self._goes_on) - 1
        self._totals = (
            rows.group_by(pl.Series("journey", self._number), maintain_order=True).agg(TOTALS).drop("journey")
        )
        self._sum_legs()
        self._sum_fuel()

    def _sum_legs(self) -> None:
        """Sum distance and time of each journey, and separately of the leg to its arrival."""
        rows, there = self._rows, self._arrival
        leg = rows.select(LEG).to_series().to_numpy()
        took = np.append(0, self._start[1:] - self._end[:-1])
        from_moving = np.append(False, self._moves[:-1])
        self._distance = self._total("distance", leg)
        self._moving = self._total("moving", np.where(from_moving, took, 0))
        self._idle = self._total("idle", np.where(from_moving, 0, took))
        self._arrival_distance = np.where(self._arrives, leg[there], 0)
        self._arrival_moving = np.where(self._arrives, took[there], 0)

    def _sum_fuel(self) -> None:
        """Sum the fuel used by each journey, and separately what a reading at its arrival adds."""
        rows, first, there = self._rows, self._first, self._arrival
        last_read = np.where(rows["last_fuel"].is_null().to_numpy(), -1, np.arange(rows.height))
        last_read = np.append(-1, np.maximum.accumulate(last_read)[:-1])
        columns = ("start_fuel", "first_fuel", "last_fuel")
        # Readings are not negative (a rule of the stream), so that no difference overflows.
        there_read, now_read, last = (rows[name].fill_null(0).to_numpy() for name in columns)
        before = last[last_read]

        is_read = rows["first_fuel"].is_not_null().to_numpy()
        burnt = np.maximum(before - now_read, 0)
        self._fuel_used = self._total("fuel_used", np.where(is_read & (last_read >= first[self._number]), burnt, 0))

        is_read_there = self._arrives & rows["start_fuel"].is_not_null().to_numpy()[there]
        burnt_there = np.maximum(before[there] - there_read[there], 0)
        self._arrival_fuel = np.where(is_read_there & (last_read[there] >= first), burnt_there, 0)
        self._has_fuel = np.logical_or.reduceat(is_read, first) | is_read_there

    def _total(self, column: str, between: Numbers) -> pl.Series:
        """Sum the values of each journey's rows and of the legs between them, in 128 bits."""
        known = sums_from(self._first, self._rows[column].to_numpy())
        return known + sums_from(self._first, np.where(self._goes_on, between, 0))

    def _held(self, column: str, totals: pl.Series, journeys: Numbers) -> Numbers:
        """Return the totals of some journeys in the type of their column."""
        return in_int64(totals.gather(journeys), column, self._rows["vehicle_id"].gather(self._first[journeys]))

    def trips(self) -> pl.DataFrame:
        ended = np.flatnonzero(self._has_ended & self._is_trip)
        first, arrives = self._first[ended], self._arrives[ended]
        there, last = self._arrival[ended], self._last[ended]
        start, end = self._start[first], np.where(arrives, self._start[there], self._end[last])
        distance = self._held("distance", self._distance + pl.Series(self._arrival_distance), ended)
        fuel = self._held("fuel_used", self._fuel_used + pl.Series(self._arrival_fuel), ended)
        moving = self._held("moving", self._moving + pl.Series(self._arrival_moving), ended)
        idle = self._held("idle", self._idle, ended)
        fuel_used = pl.Series(fuel / 1e6)
        is_instant = pl.Series(end == start)
        is_unused = pl.Series(~self._has_fuel[ended] | (distance == 0))
        totals = self._totals[ended]
        arrival = self._rows[there].select(pl.when(pl.Series(arrives)).then(pl.col("^start_.*$")))
        known = totals.hstack(arrival).select(
            _sum_of_known("braking", "start_braking"),
            _sum_of_known("accelerating", "start_accelerating"),
            pl.max_horizontal("heat", "start_heat"),
        )
        return pl.DataFrame(
            {
                "vehicle_id": self._rows["vehicle_id"].gather(first),
                "start_time": to_times(start),
                "end_time": to_times(end),
                "start_latitude": self._rows["start_latitude"].gather(first),
                "start_longitude": self._rows["start_longitude"].gather(first),
                "end_latitude": self._end_position("latitude", arrives, there, last),
                "end_longitude": self._end_position("longitude", arrives, there, last),
                # With numpy: Polars multiplies by 1e-6 instead of dividing, which sometimes differs by one bit.
                "distance_in_metres": distance / 1e6,
                "moving_seconds": moving / 1e6,
                "idle_seconds": idle / 1e6,
                "average_speed": pl.Series(distance / np.maximum(end - start, 1) * 3.6).set(is_instant, None),
                "top_speed": totals["top_speed"],
                "fuel_used": fuel_used.set(pl.Series(~self._has_fuel[ended]), None),
                # Microlitres over micrometres are litres over metres.
                "litres_per_100_km": pl.Series(fuel / np.maximum(distance, 1) * 1e5).set(is_unused, None),
                "harsh_braking": known["braking"],
                "harsh_acceleration": known["accelerating"],
                "highest_engine_temperature": known["heat"],
                "n_points": totals["n_points"],
                "reason": _text(self._stopped[ended], "STOPPED", "FELL_SILENT"),
            }
        ).with_columns(trip_id=pl.format("{}@{}", "vehicle_id", pl.col("start_time").dt.strftime(ISO_FORMAT)))

    def stops(self) -> pl.DataFrame:
        ended = np.flatnonzero(self._has_ended & ~self._is_trip)
        first, moves_on = self._first[ended], self._moves_on[ended]
        departure = np.minimum(self._last[ended] + 1, self._rows.height - 1)
        return pl.DataFrame(
            {
                "vehicle_id": self._rows["vehicle_id"].gather(first),
                "start_time": to_times(self._start[first]),
                "end_time": to_times(np.where(moves_on, self._start[departure], self._end[self._last[ended]])),
                "latitude": self._rows["start_latitude"].gather(first),
                "longitude": self._rows["start_longitude"].gather(first),
                "n_points": self._totals["n_points"][ended],
                "reason": _text(moves_on, "MOVED_ON", "FELL_SILENT"),
            }
        )

    def still_open(self) -> pl.DataFrame:
        """Return one stretch per open journey."""
        kept = np.flatnonzero(~self._has_ended)
        first, last = self._rows[self._first[kept]], self._rows[self._last[kept]]
        return first.with_columns(
            last["end_time"],
            last["end_latitude"],
            last["end_longitude"],
            *self._totals[kept],
            distance=pl.Series(self._held("distance", self._distance, kept)),
            moving=pl.Series(self._held("moving", self._moving, kept)),
            idle=pl.Series(self._held("idle", self._idle, kept)),
            fuel_used=pl.Series(self._held("fuel_used", self._fuel_used, kept)),
            deadline=to_times(self._deadline[kept]).set(pl.Series(self._deadline[kept] == _NEVER), None),
        )

    def _end_position(self, axis: str, arrives: Flags, there: Numbers, last: Numbers) -> npt.NDArray[np.float64]:
        start, end = self._rows[f"start_{axis}"].to_numpy(), self._rows[f"end_{axis}"].to_numpy()
        return np.where(arrives, start[there], end[last])


def _group(start: Numbers, moves: Flags, after_silence: Flags, stop_after: int) -> tuple[Numbers, Flags]:
    """Group rows to journeys: return each first row, and whether the next journey follows without a silence.

    A run is a sequence of rows that all move or all stand. A standing run between two moving runs is a pause of one trip if it
    is shorter than `stop_after`, from its first point to the next moving point.
    """
    begins_run = after_silence.copy()
    begins_run[1:] |= moves[1:] != moves[:-1]
    run = np.flatnonzero(begins_run)
    is_joined = ~after_silence[run]
    is_followed = np.append(is_joined[1:], False)
    until_next = np.append(start[run[1:]] - start[run[:-1]], 0)
    is_pause = ~moves[run] & is_joined & is_followed & (until_next < stop_after)
    goes_on = is_pause.copy()
    goes_on[1:] |= is_pause[:-1]
    first = run[~goes_on]
    return first, np.append(~after_silence[first[1:]], False)


def _sum_of_known(*names: str) -> pl.Expr:
    """Add columns; NULL if all of them are."""
    return pl.when(pl.any_horizontal(pl.col(names).is_not_null())).then(pl.sum_horizontal(names)).alias(names[0])


def _text(condition: Flags, yes: str, no: str) -> pl.Series:
    return pl.select(pl.when(pl.Series(condition)).then(pl.lit(yes)).otherwise(pl.lit(no))).to_series()
