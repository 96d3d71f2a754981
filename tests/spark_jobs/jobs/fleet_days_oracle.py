"""The sums of each vehicle and day, in plain Python: what `fleet_days` must agree with."""

from collections import defaultdict
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tests.shop import MINUTE

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)


def trip(minutes, metres, moving=600.0, idle=60.0, fuel: float | None = None, vehicle="bus-7"):
    return {
        "vehicle_id": vehicle,
        "end_time": NOON + minutes * MINUTE,
        "distance_in_metres": metres,
        "moving_seconds": moving,
        "idle_seconds": idle,
        "fuel_used": fuel,
    }


def days_of(told, zone):
    """The sums of each vehicle and day, in whole millionths as trips have them."""
    found = defaultdict(list)
    for one in told:
        found[one["vehicle_id"], one["end_time"].astimezone(ZoneInfo(zone)).date()].append(one)
    return {
        (vehicle, day): {
            "window_start": datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC),
            "kilometres": sum(round(one["distance_in_metres"] * 1e6) for one in of_day) / 1e9,
            "trips": len(of_day),
            "moving_seconds": sum(round(one["moving_seconds"] * 1e6) for one in of_day) / 1e6,
            "idle_seconds": sum(round(one["idle_seconds"] * 1e6) for one in of_day) / 1e6,
            "fuel_used": sum(round(one["fuel_used"] * 1e6) for one in of_day if one["fuel_used"] is not None) / 1e6
            if any(one["fuel_used"] is not None for one in of_day)
            else None,
        }
        for (vehicle, day), of_day in found.items()
    }
