"""Vehicles move as fast as they say, stop, fill up, fall silent, and begin where they ended."""

import math
from datetime import timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from keyfold.times import micros
from spark_jobs.simulation import simulate
from spark_jobs.simulation.contract import SECOND
from spark_jobs.simulation.telemetry import TelemetrySimulation, telemetry_table
from spark_jobs.streams import TELEMETRY
from tests.spark_jobs.simulation.conftest import START
from tests.spark_jobs.simulation.reading import HOUR, MINUTE, metres_between, read


def test_reports_come_every_ten_seconds_on_the_way_and_every_minute_at_rest(calls):
    for call in calls("telemetry"):
        for vehicle in call.found.keys:
            for before, after in pairwise(call.found.of(vehicle)):
                seconds = (after["time"] - before["time"]).total_seconds()
                assert 5 < seconds < 65
                if before["speed"] > 0:
                    assert seconds < 15


def test_vehicles_are_where_their_speed_takes_them(calls):
    for vehicle in (found := calls("telemetry")[0].found).keys:
        for before, after in pairwise(found.of(vehicle)):
            seconds = (after["time"] - before["time"]).total_seconds()
            # The report says the speed of the ten seconds before it, give or take what its clock is off.
            assert metres_between(before, after) == pytest.approx(after["speed"] / 3.6 * 10, rel=0.02, abs=1)
            assert metres_between(before, after) / seconds < 40


def test_every_vehicle_drives_waits_and_parks(calls):
    found = calls("telemetry")[0].found
    rests = []
    for vehicle in found.keys:
        reports = found.of(vehicle)
        assert {report["speed"] > 0 for report in reports} == {True, False}
        assert max(report["speed"] for report in reports) < 90
        stood = reports[0]["time"]
        for before, after in pairwise(reports):
            if after["speed"] > 0 and before["speed"] == 0:
                rests.append(after["time"] - stood)
            if after["speed"] == 0 and before["speed"] > 0:
                stood = after["time"]
    assert sum(rest < 2 * MINUTE for rest in rests) > 100
    assert sum(rest > 5 * MINUTE for rest in rests) > 50


def test_fuel_goes_down_on_the_way_and_up_only_where_a_vehicle_stands(calls):
    call, _ = calls("telemetry")
    filled, without_gauge = 0, 0
    for vehicle in call.found.keys:
        reports = call.found.of(vehicle)
        levels = [report["fuel_level"] for report in reports]
        if levels[0] is None:
            assert set(levels) == {None}
            without_gauge += 1
            continue
        assert 0 < min(levels) < max(levels) <= 60
        for before, after in pairwise(reports):
            if after["fuel_level"] > before["fuel_level"]:
                assert after["fuel_level"] - before["fuel_level"] > 1
                assert after["speed"] == 0
                filled += 1
    assert (filled, without_gauge) == (call.summary.refuelled, call.summary.without_gauge)
    assert filled > 0 < without_gauge


def test_vehicles_go_where_their_bearing_points(calls):
    for vehicle in (found := calls("telemetry")[0].found).keys:
        for before, after in pairwise(found.of(vehicle)):
            if after["speed"] > 20:
                north = after["latitude"] - before["latitude"]
                east = (after["longitude"] - before["longitude"]) * math.cos(math.radians(after["latitude"]))
                turn = math.degrees(math.atan2(east, north)) - (before["bearing"] + after["bearing"]) / 2
                # Round by the north the mean of two bearings is the opposite one.
                assert abs((turn + 90) % 180 - 90) < 5


def test_what_is_planted_for_warnings_is_there_and_told(calls):
    for call in calls("telemetry"):
        points = call.found.events
        low = {point["key"] for point in points if (point["fuel_level"] or 99) < 10}
        hot = {point["key"] for point in points if (point["engine_temperature"] or 0) > 110}
        braking = sum((point["acceleration"] or 0) <= -4 for point in points)
        accelerating = sum((point["acceleration"] or 0) >= 4 for point in points)
        assert (call.summary.low_on_fuel, call.summary.overheated) == (tuple(sorted(low)), tuple(sorted(hot)))
        assert (call.summary.harsh_braking, call.summary.harsh_acceleration) == (braking, accelerating)
        assert min(len(low), len(hot)) >= 2
        assert min(braking, accelerating) > 10
        for vehicle in hot & set(call.found.keys) - set(call.summary.silent):
            assert call.found.of(vehicle)[-1]["engine_temperature"] < 105, "it cools down again"


def test_one_vehicle_in_ten_tells_neither_acceleration_nor_engine_temperature(calls):
    found = calls("telemetry")[0].found
    mute = [vehicle for vehicle in found.keys if all(one["acceleration"] is None for one in found.of(vehicle))]
    assert mute == ["vehicle-009", "vehicle-019"]
    assert mute == [
        vehicle for vehicle in found.keys if all(one["engine_temperature"] is None for one in found.of(vehicle))
    ]


def test_some_vehicles_fall_silent_on_the_way_and_no_others(tmp_path):
    made = simulate("telemetry", tmp_path, size=48, hours=2, start=START)
    assert isinstance(made, TelemetrySimulation)
    assert len(made.silent) == 6
    found = read("telemetry", tmp_path, tmp_path.iterdir())
    for vehicle in found.keys:
        last = found.of(vehicle)[-1]
        silent = made.end - last["time"] > 2 * MINUTE
        assert silent == (vehicle in made.silent)
        assert not silent or last["speed"] > 0


def test_a_vehicle_begins_and_ends_at_its_depot_in_every_call(calls):
    first, further = (call.found for call in calls("telemetry"))
    silent = {vehicle for call in calls("telemetry") for vehicle in call.summary.silent}
    assert first.keys == further.keys
    for vehicle in set(first.keys) - silent:
        assert metres_between(first.of(vehicle)[-1], further.of(vehicle)[0]) < 500
    for vehicle in first.keys:
        reports = first.of(vehicle)
        assert max(metres_between(reports[0], report) for report in reports) > 1000


def test_the_bulk_table_has_the_stream_s_schema_and_grows_with_the_vehicles():
    ticks = np.arange(1080) * 10 * SECOND + micros(START)
    table = telemetry_table(np.random.default_rng(1), 300, ticks)
    assert table.schema == pl.DataFrame(TELEMETRY.schema.empty_table()).schema
    assert table["vehicle_id"].n_unique() == 300
    assert table.select("vehicle_id", "time").is_duplicated().sum() == 0
    assert START <= table["time"].min() < table["time"].max() < START + 3 * HOUR + timedelta(seconds=2)  # type: ignore[operator]
    assert 300 * 250 < len(table) < 300 * 900
