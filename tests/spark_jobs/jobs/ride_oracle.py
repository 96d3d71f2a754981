"""Ride summaries in plain Python, one point at a time: what the job must agree with."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import reject

Point = dict
NEVER = datetime(1, 1, 1, tzinfo=UTC)


@dataclass
class Answer:
    summaries: dict = field(default_factory=dict)
    """(ride_id, start_time) -> summary"""
    late_points: int = 0


def complete(points: list[Point], watermark: datetime, timeout: timedelta, closed_for: timedelta) -> Answer:
    """What `close=complete` says, by its definition alone: points in event time, in whatever order they came."""
    answer = Answer()
    for ride, of_ride in _by_ride(points).items():
        run: list[Point] = []
        closed_at = NEVER
        for point in [*sorted(of_ride, key=_order), None]:
            if run and (point is None or point["timestamp"] - run[-1]["timestamp"] > timeout):
                closed_at = run[-1]["timestamp"] + timeout
                if closed_at > watermark:
                    break
                _close(answer, ride, run, "GARBAGE_COLLECTION")
                run = []
            if point is None:
                break
            if not run and closed_at > NEVER and point["timestamp"] <= closed_at + closed_for:
                answer.late_points += 1
                continue
            run.append(point)
            if point["ride_status"] == "dropoff":
                closed_at = point["timestamp"]
                if closed_at > watermark:
                    break
                _close(answer, ride, run, "DROPOFF_SEEN")
                run = []
    return answer


class Fast:
    """What `close=fast` says: one state machine a ride, fed run by run, that closes at the first dropoff it sees.

    Within a run it is as if points came one after the other in order of time, the watermark `delay` behind each.
    """

    def __init__(self, timeout: timedelta, closed_for: timedelta, delay: timedelta) -> None:
        self.timeout, self.closed_for, self.delay = timeout, closed_for, delay
        self.answer = Answer()
        self.open: dict[str, list[Point]] = {}
        self.closed_at: dict[str, datetime] = {}

    def batch(self, points: list[Point], watermark_before: datetime, watermark_after: datetime) -> None:
        self.answer.late_points += sum(point["timestamp"] <= watermark_before for point in points)
        for point in sorted((one for one in points if one["timestamp"] > watermark_before), key=_order):
            # Strictly behind: what follows from a point's own coming is not known before it.
            self._let_go(max(watermark_before, point["timestamp"] - self.delay - timedelta(microseconds=1)))
            self._see(point)
        self._let_go(watermark_after)
        for ride, closed in list(self.closed_at.items()):
            if closed + self.closed_for <= watermark_after:
                del self.closed_at[ride]

    def _see(self, point: Point) -> None:
        ride = point["ride_id"]
        closed_at = self.closed_at.get(ride)
        if closed_at is not None and point["timestamp"] <= closed_at + self.closed_for:
            self.answer.late_points += 1
            return
        self.open.setdefault(ride, []).append(point)
        if point["ride_status"] == "dropoff":
            of_ride = sorted(self.open.pop(ride), key=_order)
            place = of_ride.index(point)
            self._close(ride, of_ride[: place + 1], point["timestamp"], "DROPOFF_SEEN")
            for after in of_ride[place + 1 :]:
                self._see(after)

    def _let_go(self, watermark: datetime) -> None:
        """Close the rides that have said nothing for long enough."""
        for ride, of_ride in list(self.open.items()):
            if (silent_at := max(point["timestamp"] for point in of_ride) + self.timeout) <= watermark:
                del self.open[ride]
                self._close(ride, sorted(of_ride, key=_order), silent_at, "GARBAGE_COLLECTION")

    def _close(self, ride: str, run: list[Point], at: datetime, reason: str) -> None:
        self.closed_at[ride] = at
        _close(self.answer, ride, run, reason)


class InProcessingTime:
    """What either way to close says where rides fall silent in processing time, fed run by run."""

    def __init__(self, timeout: timedelta, closed_for: timedelta, *, is_fast: bool) -> None:
        self.timeout, self.closed_for, self.is_fast = timeout, closed_for, is_fast
        self.answer = Answer()
        self.open: dict[str, list[Point]] = {}
        self.heard_at: dict[str, datetime] = {}
        self.closed_at: dict[str, datetime] = {}

    def run(self, now: datetime, points: list[Point], watermark_before: datetime, watermark_after: datetime) -> None:
        for ride in [ride for ride, at in self.heard_at.items() if at + self.timeout <= now]:
            self._settle(ride, None)
        for point in points:
            ride = point["ride_id"]
            closed_at = self.closed_at.get(ride)
            is_after_close = closed_at is not None and point["timestamp"] <= closed_at + self.closed_for
            if point["timestamp"] <= watermark_before or is_after_close:
                self.answer.late_points += 1
                continue
            self.open.setdefault(ride, []).append(point)
            self.heard_at[ride] = now
        for ride in list(self.open):
            self._settle(ride, watermark_after)
        for ride, closed_at in list(self.closed_at.items()):
            if closed_at + self.closed_for <= watermark_after:
                del self.closed_at[ride]

    def _settle(self, ride: str, watermark: datetime | None) -> None:
        """Close what the points close; without a watermark the ride has fallen silent, and all of it closes."""
        of_ride, heard_at = sorted(self.open.pop(ride), key=_order), self.heard_at.pop(ride)
        while of_ride:
            place = next((at for at, point in enumerate(of_ride) if point["ride_status"] == "dropoff"), None)
            if place is None:
                if watermark is None:
                    _close(self.answer, ride, of_ride, "GARBAGE_COLLECTION")
                    return
                break
            at = of_ride[place]["timestamp"]
            if not self.is_fast and watermark is not None and at > watermark:
                break
            _close(self.answer, ride, of_ride[: place + 1], "DROPOFF_SEEN")
            self.closed_at[ride] = at
            after = of_ride[place + 1 :]
            of_ride = [point for point in after if point["timestamp"] > at + self.closed_for]
            self.answer.late_points += len(after) - len(of_ride)
        if of_ride:
            self.open[ride], self.heard_at[ride] = of_ride, heard_at


def metres(a: Point, b: Point) -> float:
    """Great-circle distance by the spherical law of cosines in vector form: another formula than the job's."""
    xyz = [
        (math.cos(la) * math.cos(lo), math.cos(la) * math.sin(lo), math.sin(la))
        for la, lo in ((math.radians(p["latitude"]), math.radians(p["longitude"])) for p in (a, b))
    ]
    cross = math.dist(
        (0, 0, 0),
        (
            xyz[0][1] * xyz[1][2] - xyz[0][2] * xyz[1][1],
            xyz[0][2] * xyz[1][0] - xyz[0][0] * xyz[1][2],
            xyz[0][0] * xyz[1][1] - xyz[0][1] * xyz[1][0],
        ),
    )
    return 6_371_008.8 * math.atan2(cross, sum(x * y for x, y in zip(*xyz, strict=True)))


def _close(answer: Answer, ride: str, run: list[Point], reason: str) -> None:
    first, last = run[0], run[-1]
    # A ride that comes back after `closed_for`, out of order and at the very time at which it had started: comparing goes
    # by ride and start, which then are two summaries'.
    if (ride, first["timestamp"]) in answer.summaries:
        reject()
    answer.summaries[ride, first["timestamp"]] = {
        "ride_id": ride,
        "start_time": first["timestamp"],
        "end_time": last["timestamp"],
        "start_status": first["ride_status"],
        "end_status": last["ride_status"],
        "ride_duration_in_secs": (last["timestamp"] - first["timestamp"]) / timedelta(seconds=1),
        "reason": reason,
        "n_points": len(run),
        "distance_in_metres": sum(metres(a, b) for a, b in pairwise(run)),
        "fare": last["meter_reading"],
        "start_latitude": first["latitude"],
        "start_longitude": first["longitude"],
    }


def _by_ride(points: list[Point]) -> dict[str, list[Point]]:
    rides: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        rides[point["ride_id"]].append(point)
    return rides


def _order(point: Point) -> tuple[datetime, int]:
    return point["timestamp"], point["point_idx"]
