"""Vehicle trips in plain Python, one point at a time: what the job must agree with."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.spark_jobs.jobs.ride_oracle import metres

Point = dict
SECOND = timedelta(seconds=1)
_NEVER = timedelta(days=365_000)
HARSH_BRAKING, HARSH_ACCELERATION = 3.5, 3.0


@dataclass
class Answer:
    trips: list[dict] = field(default_factory=list)
    stops: list[dict] = field(default_factory=list)
    open_points: int = 0


def follow(
    points: list[Point], watermark: datetime, moving_speed: float, stop_after: timedelta, silence: timedelta
) -> Answer:
    """What the job's definition says of points none of which is late, once the watermark has come to a moment."""
    answer = Answer()
    answer.open_points = sum(point["time"] > watermark for point in points)
    for name in sorted({point["vehicle_id"] for point in points}):
        vehicle = _Vehicle(answer, moving_speed, stop_after, silence)
        passed = [point for point in points if point["vehicle_id"] == name and point["time"] <= watermark]
        for point in sorted(passed, key=_order):
            vehicle.see(point)
        vehicle.wait_until(watermark)
        answer.open_points += len(vehicle.trip) + len(vehicle.stand)
    return answer


def follow_by_processing_time(
    runs: list[tuple[datetime, list[Point]]],
    delay: timedelta,
    moving_speed: float,
    stop_after: timedelta,
    silence: timedelta,
) -> tuple[Answer, list[Point]]:
    """The answer where vehicles fall silent in processing time, and what came late; of runs, each at its moment."""
    answer, late = Answer(), []
    vehicles: dict[str, tuple[_Vehicle, list[Point]]] = {}
    heard_at: dict[str, datetime] = {}
    watermark = datetime(1, 1, 1, tzinfo=UTC)
    for now, points in runs:
        for name in [name for name, at in heard_at.items() if at + silence <= now]:
            del heard_at[name]
            vehicle, waiting = vehicles.pop(name)
            for point in sorted(waiting, key=_order):
                vehicle.see(point)
            vehicle.fall_silent()
        for point in points:
            if point["time"] <= watermark:
                late.append(point)
                continue
            name = point["vehicle_id"]
            heard_at[name] = now
            vehicles.setdefault(name, (_Vehicle(answer, moving_speed, stop_after, _NEVER), []))[1].append(point)
        watermark = max([watermark, *(point["time"] - delay for point in points)])
        for vehicle, waiting in vehicles.values():
            for point in sorted((one for one in waiting if one["time"] <= watermark), key=_order):
                vehicle.see(point)
            waiting[:] = [one for one in waiting if one["time"] > watermark]
            vehicle.wait_until(watermark)
    answer.open_points = sum(len(one.trip) + len(one.stand) + len(waiting) for one, waiting in vehicles.values())
    return answer, late


class _Vehicle:
    def __init__(self, answer: Answer, moving_speed: float, stop_after: timedelta, silence: timedelta) -> None:
        self.answer, self.moving_speed, self.stop_after, self.silence = answer, moving_speed, stop_after, silence
        self.trip: list[Point] = []
        """From the first to the last moving point of the open trip."""
        self.stand: list[Point] = []
        """Standing points since then, or since ever."""

    def see(self, point: Point) -> None:
        # Silences are longer than `silence`: at just that long the point is in time.
        self.wait_until(point["time"], silence_too=point["time"] - self.last > self.silence if self.any else False)
        if point["speed"] <= self.moving_speed:
            self.stand.append(point)
            return
        if not self.trip and self.stand:
            self.answer.stops.append(_stop(self.stand, point["time"], "MOVED_ON"))
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
            self.answer.stops.append(_stop(self.stand, self.last, "FELL_SILENT"))
            self.stand = []

    def fall_silent(self) -> None:
        """Nothing comes any more."""
        self.wait_until(self.last)
        if self.trip:
            self._end("FELL_SILENT")
        if self.stand:
            self.answer.stops.append(_stop(self.stand, self.last, "FELL_SILENT"))

    def _end(self, reason: str) -> None:
        self.answer.trips.append(_trip(self.trip, self.stand[:1], self.moving_speed, reason))
        self.trip = []

    @property
    def any(self) -> bool:
        return bool(self.trip or self.stand)

    @property
    def last(self) -> datetime:
        return (self.trip + self.stand)[-1]["time"]


def _trip(points: list[Point], arrival: list[Point], moving_speed: float, reason: str) -> dict:
    way = points + arrival
    legs = [(a, b, (b["time"] - a["time"]) / SECOND) for a, b in pairwise(way)]
    distance, seconds = sum(metres(a, b) for a, b, _ in legs), (way[-1]["time"] - way[0]["time"]) / SECOND
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
        # Legs are told in whole micrometres: what rounds to none was no way.
        "litres_per_100_km": used / (distance / 100_000) if used is not None and round(distance, 6) > 0 else None,
        "harsh_braking": sum(one <= -HARSH_BRAKING for one in told) if told else None,
        "harsh_acceleration": sum(one >= HARSH_ACCELERATION for one in told) if told else None,
        "highest_engine_temperature": max(heat, default=None),
        "n_points": len(points),
        "reason": reason,
    }


def _stop(points: list[Point], end: datetime, reason: str) -> dict:
    return {
        "vehicle_id": points[0]["vehicle_id"],
        "start_time": points[0]["time"],
        "end_time": end,
        "latitude": points[0]["latitude"],
        "longitude": points[0]["longitude"],
        "n_points": len(points),
        "reason": reason,
    }


def _order(point: Point) -> tuple:
    known = [
        (one is not None, one or 0)
        for one in (point[name] for name in ("fuel_level", "acceleration", "engine_temperature"))
    ]
    return point["time"], point["latitude"], point["longitude"], point["speed"], *known
