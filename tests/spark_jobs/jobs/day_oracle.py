"""Fleet days in plain Python, leg by leg: what the job must agree with."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from tests.spark_jobs.jobs.ride_oracle import metres

SECOND = timedelta(seconds=1)


@dataclass
class Day:
    metres: float = 0.0
    trips: int = 0
    moving: float = 0.0
    idle: float = 0.0
    stopped: float = 0.0
    fuel: list = field(default_factory=list)
    points: list = field(default_factory=list)


def days_of(points, watermark, moving_speed, stop_after, silence, zone="UTC"):
    """Of each vehicle and date: its figures, as far as the watermark has come, by the job's definition alone."""
    days = defaultdict(Day)
    for vehicle in {point["vehicle_id"] for point in points}:
        passed = [one for one in points if one["vehicle_id"] == vehicle and one["time"] <= watermark]
        for way in _ways(sorted(passed, key=_order), silence):
            _walk(way, days, vehicle, watermark, moving_speed, stop_after, silence, ZoneInfo(zone))
    return dict(days)


def _ways(points, silence):
    way = []
    for point in points:
        if way and point["time"] - way[-1]["time"] > silence:
            yield way
            way = []
        way.append(point)
    if way:
        yield way


def _walk(way, days, vehicle, watermark, moving_speed, stop_after, silence, zone):
    def date_of(time):
        return time.astimezone(zone).date()

    def moves(point):
        return point["speed"] > moving_speed

    in_trip = False
    level = None
    for place, point in enumerate(way):
        day = days[vehicle, date_of(point["time"])]
        day.points.append(point["time"])
        if point["fuel_level"] is not None:
            day.fuel.append(0 if level is None else max(level - point["fuel_level"], 0))
            level = point["fuel_level"]
        if moves(point) and not in_trip:
            day.trips += 1
            in_trip = True
        if not moves(point) and in_trip:
            in_trip = _stand(way, place, moves, stop_after) == "pause"
    for place, (here, there) in enumerate(pairwise(way)):
        if moves(here):
            kind = "moving"
        else:
            begin = place
            while begin and not moves(way[begin - 1]):
                begin -= 1
            behind_trip = begin > 0
            kind = "stopped"
            if behind_trip and _stand(way, begin, moves, stop_after) == "pause":
                kind = "idle"
            elif behind_trip and not any(moves(one) for one in way[begin:]):
                silent = way[-1]["time"] + silence <= watermark
                long_enough = way[begin]["time"] + stop_after <= watermark
                if not silent and not long_enough:
                    continue
        for date, share, seconds in _parts(here["time"], there["time"], zone):
            day = days[vehicle, date]
            setattr(day, kind, getattr(day, kind) + seconds)
            if kind != "stopped":
                day.metres += share * metres(here, there)


def _stand(way, place, moves, stop_after):
    """What a stand that begins at a place is: a pause if a point moves in time, else a stop, if only for now."""
    for point in way[place:]:
        if moves(point):
            return "pause" if point["time"] - way[place]["time"] < stop_after else "stop"
    return "stop"


def _parts(begin, end, zone):
    """The dates that a leg touches, with the share of its time on each and its seconds."""
    whole = (end - begin) / SECOND
    while True:
        date = begin.astimezone(zone).date()
        next_date = date + timedelta(days=1)
        midnight = datetime(next_date.year, next_date.month, next_date.day, tzinfo=zone).astimezone(UTC)
        until = min(end, midnight)
        seconds = (until - begin) / SECOND
        yield date, seconds / whole if whole else 1.0, seconds
        if until == end:
            return
        begin = until


def _order(point):
    fuel = point["fuel_level"]
    return point["time"], point["latitude"], point["longitude"], point["speed"], fuel is not None, fuel or 0
