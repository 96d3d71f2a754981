"""The sensors on new data: pure decisions, and what Dagster is told of them."""

import json
import os
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.sensors import Decision, FileSource, Source, decide, landing_sensor, new_data_sensor
from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.landing import LandedFile, Look
from spark_jobs.streams import RIDE_POINTS

SECOND = 1_000_000_000
NOW = 1_000 * SECOND
FOLDER = Path("/landing")


def file(name: str, at: float, *, marked: bool | None = None) -> LandedFile:
    return LandedFile(str(FOLDER / name), 10, int(at * SECOND), marked)


def decided(files: list[LandedFile], cursor: str | None = None, now: int = NOW, **settings) -> Decision:
    return decide(Look(tuple(files)), cursor, now, folder=FOLDER, **settings)


def names(decision: Decision) -> list[str]:
    return decision.metadata["first_names"].value if decision.new else []


def test_at_first_every_settled_file_is_new_and_all_go_into_one_run():
    decision = decided([file("a", 20), file("b", 10)])
    assert names(decision) == ["a", "b"]
    assert decision.new == 2
    assert decision.cursor == str(20 * SECOND)


def test_files_behind_the_cursor_are_not_new_again():
    first = decided([file("a", 10)])
    second = decided([file("a", 10)], first.cursor)
    assert not second.new
    assert second.cursor == first.cursor
    assert second.reason == "no new files in /landing"


def test_a_file_still_being_written_waits_and_is_not_lost():
    files = [file("a", 10), file("b", 998)]
    first = decided(files)
    assert names(first) == ["a"]
    assert first.metadata["files_not_whole"] == 1
    waits = decided(files, first.cursor)
    assert waits.reason == "no new files in /landing (1 still being written)"
    assert names(decided(files, waits.cursor, NOW + 10 * SECOND)) == ["b"]


def test_a_file_that_grows_while_another_settles_waits_until_it_has_settled_too():
    first = decided([file("a", 990), file("b", 998)])
    assert names(first) == ["a"]
    assert not decided([file("a", 990), file("b", 1009)], first.cursor, NOW + 10 * SECOND).new
    assert names(decided([file("a", 990), file("b", 1009)], first.cursor, NOW + 20 * SECOND)) == ["b"]


def test_a_file_waits_for_its_marker_however_long_and_is_not_overtaken():
    first = decided([file("a", 10, marked=False), file("b", 500, marked=True)])
    assert names(first) == ["b"]
    waits = decided([file("a", 10, marked=False), file("b", 500, marked=True)], first.cursor)
    assert waits.reason == "no new files in /landing (1 without their done-marker)"
    marked = [file("a", 999, marked=True), file("b", 500, marked=True)]
    assert names(decided(marked, waits.cursor)) == ["a"]


def test_what_comes_while_the_folder_is_looked_at_waits_for_the_next_look():
    assert not decided([file("a", 1000.001, marked=True)]).new


def test_a_file_that_is_gone_changes_nothing():
    first = decided([file("a", 10), file("b", 20)])
    gone = decided([file("a", 10)], first.cursor)
    assert not gone.new
    assert gone.cursor == first.cursor
    assert decided([], first.cursor).reason == "no files in /landing"


def test_the_cursor_stays_small_however_many_files_there_are():
    decision = decided([file(f"{n}", (n + 1) / 1000) for n in range(100_000)])
    assert decision.new == 100_000
    assert len(decision.cursor or "") < 20
    assert len(names(decision)) == 10


def test_a_cursor_that_is_none_is_refused_with_the_remedy():
    with pytest.raises(KeyfoldError, match="reset it to nothing"):
        decided([file("a", 10)], "yesterday")


def test_a_file_moved_in_with_an_old_modification_time_is_new(tmp_path):
    source = FileSource(tmp_path, timedelta(0))
    (tmp_path / "early").touch()
    time.sleep(0.02)
    first = source.poll(None)
    time.sleep(0.02)
    (tmp_path / "late").touch()
    os.utime(tmp_path / "late", (1, 1))
    time.sleep(0.02)
    assert names(source.poll(first.cursor)) == ["late"]


def test_a_renamed_file_starts_a_run_since_ingest_knows_files_by_their_names(tmp_path):
    source = FileSource(tmp_path, timedelta(0))
    (tmp_path / "a").touch()
    time.sleep(0.02)
    first = source.poll(None)
    time.sleep(0.02)
    (tmp_path / "a").rename(tmp_path / "b")
    time.sleep(0.02)
    assert names(source.poll(first.cursor)) == ["b"]


def test_a_folder_that_is_missing_or_none_is_a_reason_not_an_error(tmp_path):
    assert "is not there yet" in FileSource(tmp_path / "landing").poll(None).reason
    (tmp_path / "landing").touch()
    reason = FileSource(tmp_path / "landing").poll("7").reason
    assert "cannot be read (Not a directory)" in reason
    assert FileSource(tmp_path / "landing").poll("7").cursor == "7"


def test_a_folder_that_may_not_be_read_is_a_reason_that_says_who_wants_to(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    assert "(Permission denied); it must be a folder that" in FileSource(tmp_path).poll(None).reason


def test_a_part_that_may_not_be_read_is_warned_of_and_the_rest_goes_on():
    found = Look((file("a", 10),), ("/landing/closed",))
    decision = decide(found, None, NOW, folder=FOLDER)
    assert names(decision) == ["a"]
    assert decision.warnings == ("the folder /landing/closed cannot be read; its files wait",)


@dg.op
def nothing() -> None: ...


@dg.job(name="rides")
def rides_like():
    nothing()


def tick(instance: dg.DagsterInstance, lakehouse: Lakehouse, cursor: str | None = None, settle: int = 0):
    sensor = landing_sensor(RIDE_POINTS, "rides", timedelta(seconds=settle))
    return sensor(dg.build_sensor_context(instance=instance, cursor=cursor, resources={"lakehouse": lakehouse}))


def land(lakehouse: Lakehouse, *files: str) -> None:
    folder = lakehouse.landing("ride_points")
    folder.mkdir(parents=True, exist_ok=True)
    for name in files:
        (folder / name).write_text("{}\n")


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def test_the_sensor_skips_with_a_reason_where_there_is_nothing(instance, lakehouse):
    assert "is not there yet" in str(tick(instance, lakehouse))
    lakehouse.landing("ride_points").mkdir(parents=True)
    assert "no files in" in str(tick(instance, lakehouse))


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


class Topic:
    """What a Kafka source would be: the cursor is one offset a partition."""

    def __init__(self, ends: Mapping[str, int] | Exception) -> None:
        self._ends = ends

    def poll(self, cursor: str | None) -> Decision:
        if isinstance(self._ends, Exception):
            return Decision(cursor, reason=f"the brokers cannot be reached ({self._ends})")
        taken: dict[str, int] = json.loads(cursor or "{}")
        # A partition that ends before its offset was made anew: all that it holds is new.
        new = {
            partition: end - (at if (at := taken.get(partition, 0)) <= end else 0)
            for partition, end in self._ends.items()
        }
        if not any(new.values()):
            return Decision(cursor, reason="no new messages in rides")
        return Decision(json.dumps(self._ends), sum(new.values()), metadata={"new_messages": new})


def test_a_topic_s_offsets_fit_the_same_sensor(instance, lakehouse):
    def poll(ends: Mapping[str, int] | Exception, cursor: str | None) -> dg.SensorResult | dg.SkipReason:
        def source(_: Lakehouse) -> Source:
            return Topic(ends)

        sensor = new_data_sensor("rides_topic", "rides", dg.AssetKey("rides_topic"), source)
        told = sensor(dg.build_sensor_context(instance=instance, cursor=cursor, resources={"lakehouse": lakehouse}))
        assert isinstance(told, dg.SensorResult | dg.SkipReason)
        return told

    first = poll({"0": 5, "1": 0}, None)
    assert isinstance(first, dg.SensorResult)
    assert [request.tags["keyfold/new"] for request in first.run_requests or []] == ["5"]
    assert "no new messages" in str(poll({"0": 5, "1": 0}, first.cursor))
    assert "cannot be reached (timed out)" in str(poll(TimeoutError("timed out"), first.cursor))
    more = poll({"0": 5, "1": 2, "2": 1}, first.cursor)
    assert isinstance(more, dg.SensorResult)
    assert more.asset_events[0].metadata["new_messages"].value == {"0": 0, "1": 2, "2": 1}
    anew = poll({"0": 1, "1": 2, "2": 1}, more.cursor)
    assert isinstance(anew, dg.SensorResult)
    assert (anew.run_requests or [])[0].tags["keyfold/new"] == "1"
