"""Fleet days, without Spark, against plain Python that walks leg by leg, and against vehicle trips."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.parameters import build_job
from keyfold.testing import assert_same, merged, play
from keyfold.times import from_micros, micros
from spark_jobs.jobs.fleet_days.days import days_around
from spark_jobs.jobs.fleet_days.job import FLEET_DAYS
from tests.examples import examples
from tests.on_a_grid import assert_nothing_is_due, many_of, moments, on_grid
from tests.spark_jobs.jobs import day_oracle
from tests.spark_jobs.jobs.batches import in_batches
from tests.spark_jobs.jobs.test_vehicle_trips import A_DRIVE, CUTS, frame, point, tracks, trips, trips_job

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LONG_PAST_ALL = NOON + timedelta(days=30)
TO_MIDNIGHT = 12 * 60


def days_job(**parameters):
    return build_job(FLEET_DAYS, parameters)


def play_points(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=()):
    frames = [frame(batch).select(job.events.names) for batch in batches]
    return play(job, frames, end, cuts=cuts)


def table(harness, job):
    return merged(harness, job, "fleet_days").sort("vehicle_id", "day").to_dicts()


def days(batches, end: datetime | None = LONG_PAST_ALL, **parameters):
    job = days_job(**parameters)
    return table(play_points(job, batches, end), job)


A_DAY = [
    *A_DRIVE[:4],
    point(5, 40, 38.5, latitude=0.02),
    point(6, 0, 38.0, latitude=0.03),
    point(20, 0, 37.5, latitude=0.03),
    point(21, 0, 60.0, latitude=0.03),
    point(30, 40, 59.5, latitude=0.03),
]


def test_a_day_has_the_kilometres_trips_times_and_fuel_of_its_vehicle():
    (day,) = days([A_DAY])
    assert day.pop("kilometres") == pytest.approx(3.3358, abs=1e-4)
    assert day == {
        "vehicle_id": "bus-7",
        "day": date(2026, 1, 1),
        "day_start": NOON - 12 * HOUR,
        "trips": 2,
        "moving_seconds": 180.0,
        "idle_seconds": 120.0,
        "stopped_seconds": 60.0 + 24 * 60.0,
        "fuel_used": 3.0,
        "latest": NOON + 30 * MINUTE,
        "n_points": 9,
        "is_open": False,
    }


@pytest.mark.parametrize(("minutes", "times"), [(4.999, (1, 300.0, 0.0)), (5, (2, 0.0, 300.0))])
def test_a_stand_of_stop_after_ends_a_trip_and_a_shorter_one_is_its_pause(minutes, times):
    (day,) = days([[point(0, 50), point(1, 0), point(1 + minutes, 50), point(8, 50)]], stop_after="5m", silence="30m")
    trips, *seconds = times
    assert day["trips"] == trips
    assert (day["idle_seconds"], day["stopped_seconds"]) == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize(("stop_after", "silence", "known_at"), [("45m", "20m", 28), ("5m", "30m", 10)])
def test_a_stand_is_known_when_the_watermark_has_reached_its_length_or_the_end_of_a_silence(
    stop_after, silence, known_at
):
    drive = [point(0, 50), point(5, 0), point(8, 0)]
    for minutes, seconds in ((known_at - 0.01, 0), (known_at, 180)):
        (day,) = days([drive], NOON + minutes * MINUTE, stop_after=stop_after, silence=silence)
        assert day["stopped_seconds"] == seconds


def test_fuel_that_fell_between_two_runs_is_used():
    (day,) = days([[point(0, 50, 40.0)], [point(5, 50, 39.0)]], watermark_delay="0s")
    assert day["fuel_used"] == 1.0


def test_a_day_is_open_until_all_of_it_is_known_and_its_row_is_replaced():
    drive = [point(TO_MIDNIGHT - 1, 50), point(TO_MIDNIGHT + 1, 50, latitude=0.01)]
    closes = NOON + 12 * HOUR + 30 * MINUTE
    for end, is_open in ((NOON + 12 * HOUR, True), (closes - timedelta(microseconds=1), True), (closes, False)):
        assert days([drive], end)[0]["is_open"] is is_open
    job = days_job()
    written = play_points(job, [drive], closes).written["fleet_days"]
    assert written.filter(~pl.col("is_open"))["day"].to_list() == [date(2026, 1, 1)]


def test_days_are_those_of_the_time_zone_also_where_clocks_are_set():
    summer = [point(60 * (24 * 86 + 11) + 30 * half, 50) for half in range(56)]
    rows = days([summer], LONG_PAST_ALL + timedelta(days=90), timezone="Europe/Berlin", silence="1h")
    assert [row["day_start"] for row in rows] == [
        datetime(2026, 3, 28, 23, tzinfo=UTC),
        datetime(2026, 3, 29, 22, tzinfo=UTC),
    ]
    assert [row["n_points"] for row in rows] == [46, 10]
    assert rows[0]["moving_seconds"] == 23 * 3600


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Cairo"])
def test_the_calendar_agrees_with_the_clocks_of_the_zone(zone):
    since, until = (datetime(year, 1, 1, tzinfo=UTC) for year in (1990, 2026))
    times = np.random.default_rng(1).integers(micros(since), micros(until), 3000)
    calendar = days_around(int(times.min()), int(times.max()), zone)
    told = [date(1970, 1, 1) + timedelta(days=int(day)) for day in calendar.of(times)]
    assert told == [from_micros(time).astimezone(ZoneInfo(zone)).date() for time in times]
    begins = calendar.begin(calendar.of(times))
    assert (begins <= times).all()
    assert (calendar.of(begins) == calendar.of(times)).all()
    assert (calendar.of(begins - 1) == calendar.of(times) - 1).all()


def test_a_point_at_the_watermark_is_late():
    harness = play_points(days_job(), [[point(10, 50)], [point(0, 50), point(1, 50)]])
    assert harness.written["late.fleet_days"]["time"].to_list() == [NOON]


def test_a_vehicle_that_is_silent_leaves_no_state():
    assert play_points(days_job(), [A_DAY]).state.is_empty()
    at_the_end_of_the_silence = play_points(days_job(), [A_DAY], NOON + HOUR)
    assert at_the_end_of_the_silence.state["role"].to_list() == ["day"]


@pytest.mark.parametrize(
    "given",
    [{"timezone": "Mars/Base"}, {"timezone": "localtime"}, {"stop_after": "0s"}, {"moving_speed": -1}, {"x": 1}],
)
def test_parameters_that_cannot_be_are_refused(given):
    with pytest.raises(KeyfoldError, match=next(iter(given))):
        days_job(**given)


HOURS = moments(30 * 60, 5)
# Near midnight, where most can go wrong, or anywhere.
NEAR = moments(TO_MIDNIGHT + 60, 5, TO_MIDNIGHT - 40)


def points_at(minutes):
    return st.tuples(
        st.sampled_from("aab"),
        minutes,
        st.sampled_from([0.0, 0.0, 3.0, 50.0]),
        st.none() | st.integers(0, 60).map(float),
        st.floats(-80, 80),
        st.floats(-180, 180),
        st.floats(0, 0.999),
    )


DRAWN = many_of(points_at(NEAR), 30) | many_of(points_at(NEAR | HOURS), 30)
SPANS = st.sampled_from([5, 10, 20, 45, 60 * 30])
ZONES = st.sampled_from(["UTC", "Asia/Kathmandu", "America/New_York"])
SLICES = st.lists(HOURS.map(lambda minutes: NOON + minutes * MINUTE), max_size=5)


@examples(200)
@given(DRAWN, CUTS, SLICES, SPANS, SPANS, SPANS, NEAR | on_grid(45 * 60, 5), ZONES)
def test_any_order_within_the_delay_and_any_split_and_slices_give_the_days_of_the_definition(
    drawn, cuts, slices, stop_after, silence, delay, end, zone
):
    arriving = sorted(drawn, key=lambda one: one[1] + one[-1] * delay)
    points = [point(*one[1:-1], vehicle=one[0]) for one in arriving]
    job = days_job(
        stop_after=stop_after * MINUTE, silence=silence * MINUTE, watermark_delay=delay * MINUTE, timezone=zone
    )
    end = max(NOON + end * MINUTE, max(one["time"] for one in points) - job.watermark_delay)
    split, whole = play_points(job, in_batches(points, cuts), end, slices), play_points(job, [points[::-1]], end)
    assert split.written["late.fleet_days"].is_empty()
    assert_nothing_is_due(split)
    assert_same(job, split, whole)
    expected = day_oracle.days_of(points, end, 3.0, stop_after * MINUTE, silence * MINUTE, zone)
    found = {(row["vehicle_id"], row["day"]): row for row in table(split, job)}
    # Of a day that a leg alone touches, at its first instant, there may be nothing to tell.
    assert set(found) == {key for key, day in expected.items() if day.points or _seconds(day)}
    for key, row in found.items():
        day = expected[key]
        assert row["trips"] == day.trips
        assert row["n_points"] == len(day.points)
        assert row["latest"] == max(day.points, default=None)
        assert row["kilometres"] == pytest.approx(day.metres / 1000, rel=1e-6, abs=1e-6)
        told = (row["moving_seconds"], row["idle_seconds"], row["stopped_seconds"])
        assert told == pytest.approx((day.moving, day.idle, day.stopped))
        assert row["fuel_used"] == (pytest.approx(sum(day.fuel)) if day.fuel else None)


def _seconds(day):
    return day.moving + day.idle + day.stopped


@examples(100)
@given(DRAWN, CUTS, SPANS, SPANS, SLICES)
def test_a_run_in_any_slices_of_event_time_gives_what_one_batch_gives(drawn, cuts, silence, delay, slices):
    points = [point(*one[1:-1], vehicle=one[0]) for one in drawn]
    job = days_job(silence=silence * MINUTE, watermark_delay=delay * MINUTE)
    runs = in_batches(points, cuts)
    assert_same(job, play_points(job, runs, end=None, cuts=slices), play_points(job, runs, end=None))


def test_the_days_of_a_fleet_add_up_to_its_trips():
    fleet = tracks(20, 6000, seed=1)
    shift = pl.Series(np.random.default_rng(2).uniform(0, 599, fleet.height) * 1e6).cast(pl.Duration("us"))
    arriving = fleet.with_columns(arrival=pl.col("time") + shift).sort("arrival").drop("arrival")
    found = days(arriving.iter_slices(20_000))
    driven = trips(play(trips_job(), [fleet], LONG_PAST_ALL))
    assert sum(row["kilometres"] for row in found) == pytest.approx(
        sum(trip["distance_in_metres"] for trip in driven) / 1000
    )
    for name in ("moving_seconds", "idle_seconds"):
        assert sum(row[name] for row in found) == pytest.approx(sum(trip[name] for trip in driven))
    begun = Counter((trip["vehicle_id"], trip["start_time"].date()) for trip in driven)
    assert {(row["vehicle_id"], row["day"]): row["trips"] for row in found if row["trips"]} == begun
    assert len(found) > 40
    assert sum(row["n_points"] for row in found) == fleet.height
