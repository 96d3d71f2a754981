"""Vehicle trips in plain Python, one point at a time: what the job must agree with."""

from datetime import datetime, timedelta
from itertools import pairwise

from tests.spark_jobs.jobs.in_order_oracle import NEVER, Event, Rows
from tests.spark_jobs.jobs.ride_oracle import metres

SECOND = timedelta(seconds=1)
HARSH_BRAKING, HARSH_ACCELERATION = 3.5, 3.0


class Vehicle:
    """The trips and stops of a vehicle, whose points are seen in order."""

    def __init__(
        self, trips: Rows, stops: Rows, moving_speed: float, stop_after: timedelta, silence: timedelta = NEVER
    ) -> None:
        self.trips, self.stops = trips, stops
        self.moving_speed, self.stop_after, self.silence = moving_speed, stop_after, silence
        self.trip: list[Event] = []
        """From the first to the last moving point of the open trip."""
        self.stand: list[Event] = []
        """Standing points since then, or since ever."""

    def see(self, point: Event) -> None:
        # Silences are longer than `silence`: at just that long the point is in time.
        self.wait_until(point["time"], silence_too=point["time"] - self.last > self.silence if self.any else False)
        if point["speed"] <= self.moving_speed:
            self.stand.append(point)
            return
        if not self.trip and self.stand:
            self.stops.append(_stop(self.stand, point["time"], "MOVED_ON"))
            self.stand = []
        self.trip += [*self.stand, point]
        self.stand = []

    def wait_until(self, moment: datetime, silence_too: bool = True) -> None:
        """Nothing comes before a moment (or up to it, when it is the watermark)."""
        if not self.any:
            return
        silent_at = self.last + self.silence
        is_silent = silence_too and silent_at <= moment
        if self.trip and self.stand:
            stands_at = self.stand[0]["time"] + self.stop_after
            if stands_at <= moment and stands_at <= silent_at:
                self._end("STOPPED")
            elif is_silent:
                self._end("FELL_SILENT")
        elif self.trip and is_silent:
            self._end("FELL_SILENT")
        if self.stand and is_silent:
            self.stops.append(_stop(self.stand, self.last, "FELL_SILENT"))
            self.stand = []

    def fall_silent(self) -> None:
        """Nothing comes any more."""
        self.wait_until(self.last)
        if self.trip:
            self._end("FELL_SILENT")
        if self.stand:
            self.stops.append(_stop(self.stand, self.last, "FELL_SILENT"))

    def _end(self, reason: str) -> None:
        self.trips.append(_trip(self.trip, self.stand[:1], self.moving_speed, reason))
        self.trip = []

    @property
    def any(self) -> bool:
        return bool(self.trip or self.stand)

    @property
    def last(self) -> datetime:
        return (self.trip + self.stand)[-1]["time"]


def _trip(points: list[Event], arrival: list[Event], moving_speed: float, reason: str) -> dict:
    way = points + arrival
    legs = [(a, b, (b["time"] - a["time"]) / SECOND) for a, b in pairwise(way)]
    # Legs are told in whole micrometres.
    distance, seconds = sum(round(metres(a, b), 6) for a, b, _ in legs), (way[-1]["time"] - way[0]["time"]) / SECOND
    fuel = [point["fuel_level"] for point in way if point["fuel_level"] is not None]
    used = sum(max(a - b, 0) for a, b in pairwise(fuel)) if fuel else None
    told = [point["acceleration"] for point in way if point["acceleration"] is not None]
    heat = [point["engine_temperature"] for point in way if point["engine_temperature"] is not None]
    start = f"{way[0]['time']:%Y-%m-%dT%H:%M:%S.%fZ}"
    return {
        "trip_id": f"{way[0]['vehicle_id']}@{start}",
        "vehicle_id": way[0]["vehicle_id"],
        "start_time": way[0]["time"],
        "end_time": way[-1]["time"],
        "start_latitude": way[0]["latitude"],
        "start_longitude": way[0]["longitude"],
        "end_latitude": way[-1]["latitude"],
        "end_longitude": way[-1]["longitude"],
        "distance_in_metres": distance,
        "moving_seconds": sum(length for a, _, length in legs if a["speed"] > moving_speed),
        "idle_seconds": sum(length for a, _, length in legs if a["speed"] <= moving_speed),
        "average_speed": distance / seconds * 3.6 if seconds else None,
        "top_speed": max(point["speed"] for point in points),
        "fuel_used": used,
        "litres_per_100_km": used / (distance / 100_000) if used is not None and distance > 0 else None,
        "harsh_braking": sum(one <= -HARSH_BRAKING for one in told) if told else None,
        "harsh_acceleration": sum(one >= HARSH_ACCELERATION for one in told) if told else None,
        "highest_engine_temperature": max(heat, default=None),
        "n_points": len(points),
        "reason": reason,
    }


def _stop(points: list[Event], end: datetime, reason: str) -> dict:
    return {
        "vehicle_id": points[0]["vehicle_id"],
        "start_time": points[0]["time"],
        "end_time": end,
        "latitude": points[0]["latitude"],
        "longitude": points[0]["longitude"],
        "n_points": len(points),
        "reason": reason,
    }
