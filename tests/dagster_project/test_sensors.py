"""The sensor on the landing folder: a pure decision, and what Dagster is told of it."""

import os
import time
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.sensors import LandedFile, decide, landed_files, landing_sensor
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.streams import RIDE_POINTS

SECOND = 1_000_000_000
NOW = 1_000 * SECOND


def file(name: str, at: float) -> LandedFile:
    return LandedFile(name, 10, int(at * SECOND))


def test_at_first_every_settled_file_is_new():
    decision = decide([file("b", 20), file("a", 10)], None, NOW)
    assert [one.path for one in decision.new] == ["a", "b"]
    assert decision.cursor == str(20 * SECOND)


def test_files_behind_the_cursor_are_not_new_again():
    first = decide([file("a", 10)], None, NOW)
    second = decide([file("a", 10)], first.cursor, NOW)
    assert not second.new
    assert second.cursor == first.cursor


def test_a_file_still_being_written_waits_and_is_not_lost():
    files = [file("a", 10), file("b", 998)]
    first = decide(files, None, NOW)
    assert [one.path for one in first.new] == ["a"]
    assert first.unsettled == 1
    second = decide(files, first.cursor, NOW + 10 * SECOND)
    assert [one.path for one in second.new] == ["b"]


def test_a_file_that_is_gone_changes_nothing():
    first = decide([file("a", 10), file("b", 20)], None, NOW)
    assert not decide([file("a", 10)], first.cursor, NOW).new


def test_the_cursor_stays_small_however_many_files_there_are():
    decision = decide((file(f"{n}", (n + 1) / 1000) for n in range(100_000)), None, NOW)
    assert len(decision.new) == 100_000
    assert len(decision.cursor) < 20


def test_a_file_moved_in_with_an_old_modification_time_is_new(tmp_path):
    early, late = tmp_path / "early", tmp_path / "late"
    early.touch()
    first = decide(landed_files(tmp_path), None, time.time_ns() + 60 * SECOND)
    time.sleep(0.05)
    late.touch()
    os.utime(late, (1, 1))
    second = decide(landed_files(tmp_path), first.cursor, time.time_ns() + 60 * SECOND)
    assert [Path(one.path).name for one in second.new] == ["late"]


def test_hidden_files_and_folders_are_not_seen(tmp_path):
    for name in (".a.tmp", "_b", "c.ndjson", "deep/d.ndjson", "_parts/e.ndjson"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(Path(one.path).name for one in landed_files(tmp_path)) == ["c.ndjson", "d.ndjson"]


@dg.op
def nothing() -> None: ...


@dg.job(name="rides")
def rides_like():
    nothing()


def tick(instance: dg.DagsterInstance, lakehouse: Lakehouse, cursor: str | None = None, settle: int = 0):
    sensor = landing_sensor(RIDE_POINTS, "rides", timedelta(seconds=settle))
    return sensor(dg.build_sensor_context(instance=instance, cursor=cursor, resources={"lakehouse": lakehouse}))


def land(lakehouse: Lakehouse, *names: str) -> None:
    folder = lakehouse.landing("ride_points")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("{}\n")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def test_the_sensor_skips_with_a_reason_where_there_is_nothing(instance, lakehouse):
    assert "is not there yet" in str(tick(instance, lakehouse))
    lakehouse.landing("ride_points").mkdir(parents=True)
    assert "no new files" in str(tick(instance, lakehouse))


def test_the_sensor_waits_for_files_to_settle(instance, lakehouse):
    land(lakehouse, "a.ndjson", "b.ndjson")
    assert "2 still being written" in str(tick(instance, lakehouse, settle=60))


def test_new_files_start_one_run_and_are_reported_on_the_landing_asset(instance, lakehouse):
    land(lakehouse, "a.ndjson", "b.ndjson")
    told = tick(instance, lakehouse)
    assert isinstance(told, dg.SensorResult)
    (request,), (event,) = told.run_requests or [], told.asset_events
    assert request.run_key is None
    assert event.asset_key == dg.AssetKey("ride_points_landing")
    assert event.metadata["new_files"].value == 2
    assert "no new files" in str(tick(instance, lakehouse, cursor=told.cursor))


def test_the_sensor_holds_back_while_a_run_is_not_over_and_keeps_its_cursor(instance, lakehouse):
    land(lakehouse, "a.ndjson")
    run = instance.create_run_for_job(rides_like, status=dg.DagsterRunStatus.STARTED)
    held = tick(instance, lakehouse)
    assert isinstance(held, dg.SkipReason)
    assert run.run_id in str(held)
    instance.report_run_canceled(run)
    assert isinstance(tick(instance, lakehouse), dg.SensorResult)
