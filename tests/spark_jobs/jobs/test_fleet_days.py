"""Fleet days, without Spark, against sums in plain Python of the trips of each day."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import in_one_frame
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import merged, play
from spark_jobs.jobs.fleet_days import FLEET_DAYS

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LONG_PAST_ALL = NOON + timedelta(days=30)


def days_job(**parameters):
    return build_job(FLEET_DAYS, parameters)


def trip(minutes, metres, moving=600.0, idle=60.0, fuel: float | None = None, vehicle="bus-7"):
    return {
        "vehicle_id": vehicle,
        "end_time": NOON + minutes * MINUTE,
        "distance_in_metres": metres,
        "moving_seconds": moving,
        "idle_seconds": idle,
        "fuel_used": fuel,
    }


def derived(job, batch):
    """Trips in the columns that the job gets of them."""
    kinds = {
        name: kind
        for name, kind in polars_schema(job.inputs["vehicle_trips"].stream.event_schema).items()
        if name in trip(0, 0.0)
    }
    frame = pl.DataFrame(batch, schema=kinds, orient="row")
    return in_one_frame(job, frame)


def play_trips(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=()):
    return play(job, [derived(job, batch) for batch in batches], end, cuts=cuts)


def table(harness, job):
    rows = merged(harness, job, "fleet_days").sort("vehicle_id", "day").to_dicts()
    return {(row.pop("vehicle_id"), row.pop("day")): row for row in rows}


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


def test_a_day_is_open_until_the_watermark_has_passed_it_and_its_row_is_replaced():
    job, midnight = days_job(), NOON + 12 * 60 * MINUTE
    for end, is_open in ((midnight - timedelta(microseconds=1), True), (midnight, False)):
        harness = play_trips(job, [[trip(0, 1000.0)], [trip(10, 500.0, fuel=2.5)]], end)
        (row,) = table(harness, job).values()
        assert row == {
            **days_of([trip(0, 1000.0), trip(10, 500.0, fuel=2.5)], "UTC")["bus-7", NOON.date()],
            "is_open": is_open,
        }
        assert harness.written["fleet_days"]["trips"].to_list() == [1, 2, 2][: 2 + (not is_open)]


@pytest.mark.parametrize("given", [{"timezone": "Mars/Base"}, {"timezone": "localtime"}, {"x": 1}])
def test_parameters_that_cannot_be_are_refused(given):
    with pytest.raises(KeyfoldError, match=next(iter(given))):
        days_job(**given)
