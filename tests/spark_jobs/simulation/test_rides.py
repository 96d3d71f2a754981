"""The simulator's counts are checked by a reader that shares no code with it: plain Python, a line at a time."""

import gzip
import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from spark_jobs.simulation import ride_points_table, simulate
from spark_jobs.simulation.rides import RideSimulation
from spark_jobs.streams import RIDE_POINTS

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
FUTURE = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass
class Feed:
    """What the plain reader found, in the order of arrival."""

    files: int = 0
    unreadable: int = 0
    rows: int = 0
    malformed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    copies_in_same_file: int = 0
    copies_in_other_file: int = 0
    points: list[dict] = field(default_factory=list)

    @property
    def rides(self) -> dict[str, list[dict]]:
        rides = defaultdict(list)
        for point in self.points:
            rides[point["ride_id"]].append(point)
        return {ride: sorted(points, key=lambda point: point["point_idx"]) for ride, points in rides.items()}


def fault_of(line: str) -> str | None:
    try:
        point = json.loads(line)
    except json.JSONDecodeError:
        return "broken JSON"
    if "ride_id" not in point:
        return "no ride_id"
    try:
        at = datetime.fromisoformat(point["timestamp"])
    except ValueError:
        return "unreadable time"
    if at > FUTURE:
        return "time in the future"
    if abs(point["latitude"]) > 90:
        return "latitude out of range"
    return None if point["ride_status"] in {"pickup", "enroute", "dropoff"} else "unknown status"


def read_feed(folder: Path) -> Feed:
    feed, seen = Feed(), {}
    for path in sorted(folder.iterdir()):
        try:
            raw = path.read_bytes()
            content = gzip.decompress(raw) if path.suffix == ".gz" else raw
        except EOFError:
            feed.unreadable += 1
            continue
        feed.files += 1
        for line in content.decode().splitlines():
            feed.rows += 1
            if fault := fault_of(line):
                feed.malformed[fault] += 1
                continue
            point = json.loads(line)
            event = point["ride_id"], point["point_idx"]
            if event not in seen:
                seen[event] = line, path
                feed.points.append(point | {"at": datetime.fromisoformat(point["timestamp"])})
                continue
            assert line == seen[event][0], "a copy differs from the event it copies"
            feed.copies_in_same_file += path == seen[event][1]
            feed.copies_in_other_file += path != seen[event][1]
    return feed


def rides_in(folder: Path, **arguments: Any) -> RideSimulation:
    summary = simulate("ride_points", folder, **arguments)
    assert isinstance(summary, RideSimulation)
    return summary


@pytest.fixture(scope="module")
def simulated(tmp_path_factory) -> tuple[RideSimulation, Feed]:
    folder = tmp_path_factory.mktemp("landing")
    return rides_in(folder, seed=7, start=START), read_feed(folder)


def test_the_summary_counts_what_is_in_the_files(simulated):
    summary, feed = simulated
    assert (summary.files, summary.unreadable_files, summary.rows) == (feed.files, feed.unreadable, feed.rows)
    assert (summary.events, summary.rides) == (len(feed.points), len(feed.rides))
    assert summary.duplicates == feed.copies_in_same_file + feed.copies_in_other_file
    assert summary.malformed_by_fault == feed.malformed
    assert summary.malformed == sum(feed.malformed.values())
    assert summary.rows == summary.events + summary.duplicates + summary.malformed


def test_out_of_order_and_late_points_are_counted_as_they_arrive(simulated):
    summary, feed = simulated
    over = {ride: max(point["at"] for point in points) for ride, points in feed.rides.items()}
    newest, out_of_order, late = START, 0, 0
    for point in feed.points:
        newest = max(newest, point["at"])
        out_of_order += newest - point["at"] > timedelta(minutes=1)
        late += newest - over[point["ride_id"]] > timedelta(minutes=40)
    assert (summary.out_of_order, summary.late) == (out_of_order, late)


def test_long_rides_and_rides_without_dropoff_are_counted(simulated):
    summary, feed = simulated
    assert summary.without_dropoff == sum(points[-1]["ride_status"] != "dropoff" for points in feed.rides.values())
    spans = [max(p["at"] for p in points) - min(p["at"] for p in points) for points in feed.rides.values()]
    assert summary.over_an_hour == sum(span > timedelta(hours=1) for span in spans)


@pytest.mark.parametrize("rides", [10, 200])
def test_every_kind_of_fault_occurs_however_few_the_rides(tmp_path, rides):
    summary = rides_in(tmp_path, size=rides, seed=3, start=START)
    feed = read_feed(tmp_path)
    assert len(summary.malformed_by_fault) == 6
    assert min(summary.malformed_by_fault.values()) > 0
    assert min(summary.late, summary.out_of_order, summary.without_dropoff, summary.over_an_hour) > 0
    assert min(feed.copies_in_same_file, feed.copies_in_other_file, feed.unreadable) > 0


def test_rides_are_such_as_a_taxi_could_drive_but_for_a_meter_that_jumps_in_one_of_forty(simulated):
    summary, feed = simulated
    jumps = set()
    for ride, points in feed.rides.items():
        assert [point["point_idx"] for point in points] == list(range(len(points)))
        assert points[0]["ride_status"] == "pickup"
        assert {point["ride_status"] for point in points[1:-1]} == {"enroute"}
        assert len({point["passenger_count"] for point in points}) == 1
        for before, after in pairwise(points):
            seconds = (after["at"] - before["at"]).total_seconds()
            assert 4 <= seconds <= 15
            assert metres_between(before, after) / seconds < 26
            jump = after["meter_reading"] - before["meter_reading"] - after["meter_increment"]
            if abs(jump) > 1e-3:
                assert 5 <= jump + 1e-3 <= 20.002
                jumps.add((ride, after["point_idx"]))
    assert len(jumps) == summary.rides // 40
    assert jumps == set(summary.meter_jumps)
    times = [point["at"] for point in feed.points]
    assert summary.start <= min(times) < max(times) <= summary.end
    assert all(40.5 < point["latitude"] < 40.9 and -74.1 < point["longitude"] < -73.7 for point in feed.points)


def test_the_same_arguments_write_the_same_bytes(tmp_path):
    for name in ("once", "again"):
        rides_in(tmp_path / name, size=20, seed=5, start=START)
    rides_in(tmp_path / "other", size=20, seed=6, start=START)
    once, again, other = (
        {p.name: p.read_bytes() for p in (tmp_path / f).iterdir()} for f in ("once", "again", "other")
    )
    assert once == again
    assert set(once.values()).isdisjoint(other.values())


def test_without_a_start_the_data_are_fresh_and_a_second_call_goes_on_in_time(tmp_path):
    first = rides_in(tmp_path, size=10, seed=1, compress=False)
    second = rides_in(tmp_path, size=10, seed=2)
    assert timedelta(0) < datetime.now(UTC) - first.start < timedelta(hours=7, minutes=5)
    assert second.start == first.end
    feed = read_feed(tmp_path)
    assert (feed.files, feed.rows, len(feed.rides)) == (48, first.rows + second.rows, 20)


def test_a_reader_never_sees_a_temporary_file_left_behind(tmp_path):
    rides_in(tmp_path, size=10, start=START)
    assert not [path.name for path in tmp_path.iterdir() if not path.name.startswith("rides-")]


@pytest.mark.parametrize("rides", [1, 2, 9])
def test_a_few_rides_are_enough(tmp_path, rides):
    summary = rides_in(tmp_path, size=rides, start=START)
    feed = read_feed(tmp_path)
    assert (summary.rides, len(feed.rides), feed.rows) == (rides, rides, summary.rows)


def test_arguments_out_of_range_are_named(tmp_path):
    with pytest.raises(KeyfoldError, match="rides is 0"):
        rides_in(tmp_path, size=0)
    with pytest.raises(KeyfoldError, match="no offset"):
        rides_in(tmp_path, start=datetime(2026, 1, 1))  # noqa: DTZ001
    assert not list(tmp_path.iterdir())


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


def metres_between(one: dict, other: dict) -> float:
    """Great-circle distance."""
    (a, b), (c, d) = ((math.radians(p["latitude"]), math.radians(p["longitude"])) for p in (one, other))
    h = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * 6_371_000 * math.asin(math.sqrt(h))
