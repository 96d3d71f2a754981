"""What runs continuously outside of Dagster: an external asset, told of by its journal, its checks on a schedule."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from keyfold.dagster.assets.metadata import BATCH, GENERATION, SINCE_BATCH
from keyfold.dagster.automation.continuous_runs.external_assets import (
    TAG,
    as_external,
    declared,
    watching,
    written_since,
)
from keyfold.dagster.automation.continuous_runs.standing import SILENT, Standing, is_healthy, look
from keyfold.dagster.automation.definitions import GROUPS
from keyfold.dagster.resources import LakehouseResource
from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest
from keyfold.lakehouse import Lakehouse, exclusive
from spark_jobs.streams import WEATHER
from tests.keyfold.ingestion.test_continuous import SPARK

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
WELL = Standing(
    "moving_averages",
    is_running=True,
    generation="generation-0001",
    batch=7,
    finished_at=NOW - timedelta(seconds=2),
    rows={"moving_averages": 100, "late.moving_averages": 3},
    events=120,
    watermark=NOW - timedelta(seconds=30),
    unread=5,
)


def later(seconds):
    return NOW + timedelta(seconds=seconds)


def test_a_batch_more_is_told_with_rows_watermark_and_lag_and_the_same_batch_is_not():
    first = look(WELL, None, NOW)
    assert first.metadata == {
        "batch": 7,
        "events": 120,
        "is_running": True,
        "silent_seconds": 2.0,
        "state": "moving_averages runs; batch 7 is the newest",
        "lag_rows": 5,
        "watermark": NOW - timedelta(seconds=30),
        "watermark_lag_seconds": 30.0,
    }
    again = look(WELL, first.cursor, later(30))
    assert (again.metadata, again.cursor) == ({}, first.cursor)
    assert again.reason == "no batch of moving_averages since batch 7, 0:00:32 ago"
    assert look(replace(WELL, batch=8), first.cursor, later(30)).metadata["batch"] == 8


@pytest.mark.parametrize(
    "changed",
    [{"is_running": False}, {"generation": "generation-0002"}, {"pending_since": NOW - timedelta(minutes=6)}],
)
def test_a_process_that_has_gone_or_stalled_and_another_generation_are_told_at_once(changed):
    first = look(WELL, None, NOW)
    assert look(replace(WELL, **changed), first.cursor, later(30)).metadata


def test_a_silence_is_told_every_so_often():
    told, cursor = [], look(WELL, None, NOW).cursor
    for seconds in range(0, 4 * int(SILENT.total_seconds()), 30):
        seen = look(WELL, cursor, later(seconds))
        cursor = seen.cursor
        if seen.metadata:
            told.append(seconds)
    assert told == [600, 1200, 1800]


def test_before_the_first_batch_there_is_nothing_to_tell():
    nothing = look(Standing("weather", is_running=False), None, NOW)
    assert (nothing.metadata, nothing.reason) == ({}, "weather has not committed a batch yet")


def test_it_goes_on_while_a_process_holds_it_and_its_batches_end():
    assert is_healthy(WELL, NOW)[0]
    gone, told = is_healthy(replace(WELL, is_running=False), NOW)
    assert not gone
    assert "no process runs moving_averages" in told
    assert is_healthy(replace(WELL, pending_since=NOW - timedelta(minutes=4)), NOW)[0]
    stalled, told = is_healthy(replace(WELL, pending_since=NOW - timedelta(minutes=6)), NOW)
    assert not stalled
    assert told == "a batch of moving_averages was planned 0:06:00 ago and is not committed"


def test_what_was_written_is_told_once_and_from_where_it_was_told_before():
    first = written_since(WELL, "moving_averages", None)
    assert first is not None
    assert plain(first) == {
        GENERATION: "generation-0001",
        BATCH: 7,
        "dagster/row_count": 100,
        "events_in": 120,
        "keyfold/events": 120,
    }
    assert written_since(WELL, "moving_averages", first) is None
    more = written_since(replace(WELL, batch=9, events=150), "moving_averages", first)
    assert more is not None
    assert (plain(more)[SINCE_BATCH], plain(more)[BATCH], plain(more)["events_in"]) == (7, 9, 30)
    # Another generation has read all events again.
    other = written_since(replace(WELL, generation="generation-0002", batch=0), "moving_averages", more)
    assert other is not None
    assert SINCE_BATCH not in plain(other)
    assert plain(other)["events_in"] == 120


def plain(event):
    return {name: value.value for name, value in event.metadata.items()}


@pytest.fixture(scope="module")
def continuous():
    return declared(GROUPS, {"KEYFOLD_CONTINUOUS": "weather moving_averages"})


def test_names_that_are_none_are_refused_with_those_there_are():
    with pytest.raises(
        KeyfoldError,
        match=r"KEYFOLD_CONTINUOUS names unknown streams or jobs: wether; known are .*weather.*moving_averages",
    ):
        declared(GROUPS, {"KEYFOLD_CONTINUOUS": "wether"})
    assert declared(GROUPS, {}) == []


def test_their_tables_are_external_with_their_columns_and_all_else_stays_as_it_was(continuous):
    group = next(group for group in GROUPS if group.name == "weather")
    external = list(as_external(group.assets, continuous))
    graph = dg.Definitions(assets=external).resolve_asset_graph()
    names = {key.to_user_string() for key in graph.external_asset_keys}
    assert names == {
        "weather_landing",
        "weather_events",
        "weather_quarantine",
        "moving_averages",
        "latest_moving_averages",
        "station_sessions",
        "moving_averages_late",
    }
    assert not graph.executable_asset_keys
    spec = next(one for one in external if isinstance(one, dg.AssetSpec) and one.key == dg.AssetKey("moving_averages"))
    assert spec.tags[TAG] == "moving_averages"
    assert "Written by `keyfold run moving_averages --continuous`" in (spec.description or "")
    assert spec.metadata["dagster/column_schema"].columns
    rides = next(group for group in GROUPS if group.name == "rides")
    assert list(as_external(rides.assets, continuous)) == list(rides.assets)


@pytest.fixture
def home(tmp_path):
    landing = tmp_path / "landing"
    landing.mkdir()
    lakehouse = Lakehouse(tmp_path / "home")
    land(landing, 1)
    ingest(SPARK, lakehouse, WEATHER, landing)
    return lakehouse


def land(landing, hour):
    reading = {"station_id": "a", "time": f"2026-01-01T{hour:02d}:00:00Z", "temp": 50.0}
    (landing / f"{hour}.ndjson").write_text(json.dumps(reading) + "\n")


def test_the_sensor_observes_each_table_and_the_schedule_reports_what_was_written_and_asks_for_the_checks(
    home, continuous
):
    lakehouse = home
    sensor, schedule, check = watching(continuous[0])
    resources = {"lakehouse": LakehouseResource(home=str(lakehouse.home))}
    with dg.instance_for_test() as instance, exclusive(lakehouse.ingest("weather"), "a continuous run"):
        told = sensor(dg.build_sensor_context(instance, resources=resources))
        assert isinstance(told, dg.SensorResult)
        rows = {event.asset_key.to_user_string(): event.metadata["rows"].value for event in told.asset_events}
        assert rows == {"weather_events": 1, "weather_quarantine": 0}
        silent = sensor(dg.build_sensor_context(instance, cursor=told.cursor, resources=resources))
        assert isinstance(silent, dg.SkipReason)
        assert isinstance(ask(schedule, instance, resources), dg.RunRequest)
        made = instance.get_latest_materialization_event(dg.AssetKey("weather_events"))
        assert made is not None
        assert made.asset_materialization is not None
        assert made.asset_materialization.metadata["dagster/row_count"].value == 1
        # Nothing came: the checks run, and nothing is reported twice.
        ask(schedule, instance, resources)
        assert len(instance.fetch_materializations(dg.AssetKey("weather_events"), limit=9).records) == 1
        job = dg.Definitions(
            assets=list(as_external(weather().assets, continuous)),
            asset_checks=[check, *(one for one in weather().checks if "events" in str(one.check_keys))],
            schedules=[schedule],
            resources=resources,
        ).resolve_job_def("watch_weather")
        run = job.execute_in_process(instance=instance, resources=resources)
        found = {one.check_name: one.passed for one in run.get_asset_check_evaluations()}
        assert found == {"it_goes_on": True, "every_row_is_accounted_for": True}


def weather():
    return next(group for group in GROUPS if group.stream is WEATHER)


def ask(schedule, instance, resources):
    context = dg.build_schedule_context(instance, scheduled_execution_time=NOW, resources=resources)
    return schedule(context)
