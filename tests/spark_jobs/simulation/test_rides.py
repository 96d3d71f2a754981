"""Rides are such as a taxi could drive; what all streams have in common is in test_feeds.py."""

from datetime import timedelta
from itertools import pairwise

import polars as pl
import pytest

from spark_jobs.simulation import ride_points_table, simulate
from spark_jobs.simulation.rides import RideSimulation
from spark_jobs.streams import RIDE_POINTS
from tests.spark_jobs.simulation.conftest import START
from tests.spark_jobs.simulation.reading import HOUR, MINUTE, metres_between, read


def rides_of(found):
    return {ride: sorted(found.of(ride), key=lambda point: point["point_idx"]) for ride in found.keys}


def test_out_of_order_and_late_points_are_counted_as_they_arrive(calls):
    call, _ = calls("ride_points")
    over = {ride: max(point["time"] for point in points) for ride, points in rides_of(call.found).items()}
    newest, late = START, 0
    for point in call.found.events:
        newest = max(newest, point["time"])
        late += newest - over[point["key"]] > 40 * MINUTE
    assert (call.summary.out_of_order, call.summary.late) == (call.found.behind(MINUTE, by_key=False), late)


def test_long_rides_and_rides_without_dropoff_are_counted(calls):
    call, _ = calls("ride_points")
    rides = rides_of(call.found)
    assert call.summary.rides == len(rides)
    assert call.summary.without_dropoff == sum(points[-1]["ride_status"] != "dropoff" for points in rides.values())
    spans = [max(p["time"] for p in points) - min(p["time"] for p in points) for points in rides.values()]
    assert call.summary.over_an_hour == sum(span > HOUR for span in spans)


def test_every_kind_of_fault_occurs_however_few_the_rides(tmp_path):
    summary = simulate("ride_points", tmp_path, size=10, seed=3, start=START)
    assert isinstance(summary, RideSimulation)
    found = read("ride_points", tmp_path, tmp_path.iterdir())
    assert len(summary.malformed_by_fault) == 6
    assert min(summary.malformed_by_fault.values()) > 0
    assert min(summary.late, summary.out_of_order, summary.without_dropoff, summary.over_an_hour) > 0
    assert 0 < found.copies_elsewhere < found.copies
    assert found.unreadable > 0


def test_rides_are_such_as_a_taxi_could_drive_but_for_a_meter_that_jumps_in_one_of_forty(calls):
    call, _ = calls("ride_points")
    jumps = set()
    for ride, points in rides_of(call.found).items():
        assert [point["point_idx"] for point in points] == list(range(len(points)))
        assert points[0]["ride_status"] == "pickup"
        assert {point["ride_status"] for point in points[1:-1]} == {"enroute"}
        assert len({point["passenger_count"] for point in points}) == 1
        for before, after in pairwise(points):
            seconds = (after["time"] - before["time"]).total_seconds()
            assert 4 <= seconds <= 15
            assert metres_between(before, after) / seconds < 26
            jump = after["meter_reading"] - before["meter_reading"] - after["meter_increment"]
            if abs(jump) > 1e-3:
                assert 5 <= jump + 1e-3 <= 20.002
                jumps.add((ride, after["point_idx"]))
    assert len(jumps) == call.summary.rides // 40
    assert jumps == set(call.summary.meter_jumps)
    points = call.found.events
    assert all(40.5 < point["latitude"] < 40.9 and -74.1 < point["longitude"] < -73.7 for point in points)


def test_the_bulk_table_has_the_stream_s_schema_in_event_time_order():
    table = ride_points_table(300, 40, seed=1, start=START, rides_per_hour=600)
    assert table.schema == pl.DataFrame(RIDE_POINTS.schema.empty_table()).schema
    assert table.null_count().transpose().to_series().sum() == 0
    assert table["timestamp"].is_sorted()
    assert table["timestamp"][0] >= START
    assert table["timestamp"][-1] < START + timedelta(minutes=30 + 10)
    each = table.group_by("ride_id").agg(
        pl.len(), pl.col("ride_status").filter(pl.col("ride_status") == "dropoff").len()
    )
    assert each.height == 300
    assert each["len"].unique().to_list() == [40]
    assert each["ride_status"].unique().to_list() == [1]
    assert table.equals(ride_points_table(300, 40, seed=1, start=START, rides_per_hour=600))


def test_bulk_rides_overlap_in_time_as_the_docstring_says():
    table = ride_points_table(2000, 50, seed=2, start=START)
    middle = START + timedelta(minutes=50)
    spans = table.group_by("ride_id").agg(pl.col("timestamp").min().alias("on"), pl.col("timestamp").max().alias("off"))
    running = spans.filter((pl.col("on") <= middle) & (pl.col("off") >= middle)).height
    assert running == pytest.approx(160, rel=0.25)
