"""Which points of rides are late, and rides in bulk; what all streams have in common is in test_feeds.py."""

from datetime import timedelta

import polars as pl
import pytest

from spark_jobs.simulation import ride_points_table
from spark_jobs.streams import RIDE_POINTS
from tests.spark_jobs.simulation.conftest import START
from tests.spark_jobs.simulation.reading import MINUTE


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
