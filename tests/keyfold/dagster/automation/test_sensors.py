"""The sensors on new data: pure decisions, and what Dagster is told of them."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from keyfold.dagster.automation.new_data import Decision, decide_on_files, look_at_folder
from keyfold.dagster.automation.sensors import landing_sensor
from keyfold.dagster.resources import Keyfold
from keyfold.errors import KeyfoldError
from keyfold.ingestion import ingest
from keyfold.ingestion.known import KnownFile
from keyfold.ingestion.listing import LandedFile, Listing
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from spark_jobs.streams import RIDE_POINTS
from tests.keyfold.ingestion.test_batch import no_spark

SECOND = 1_000_000_000
NOW = 1_000 * SECOND
FOLDER = Path("/landing")


def file(name: str, at: float, *, marked: bool | None = None, size: int = 10) -> LandedFile:
    return LandedFile(name, size, int(at * SECOND), int(at * SECOND), marked)


def known_file(one: LandedFile) -> KnownFile:
    return KnownFile(one.size, one.modified_at, one.changed_at, "as it was read")


def known(*files: LandedFile) -> dict[str, KnownFile]:
    return {one.path: known_file(one) for one in files}


def decided(
    files: Sequence[LandedFile],
    read: Mapping[str, KnownFile] | None = None,
    cursor: str | None = None,
    now: float = 1_000,
    **settings: Any,
) -> Decision:
    return decide_on_files(Listing(tuple(files)), read or {}, cursor, int(now * SECOND), folder=FOLDER, **settings)


def names(decision: Decision) -> list[str]:
    return decision.metadata["first_names"].value if decision.new else []


def test_at_first_every_settled_file_is_new_and_all_go_into_one_run():
    decision = decided([file("a", 20), file("b", 10)])
    assert names(decision) == ["a", "b"]
    assert decision.new == 2


def test_files_that_ingest_has_read_are_not_new_whatever_the_cursor():
    files = [file("a", 10), file("b", 20)]
    for cursor in (None, decided(files).cursor):
        read = decided(files, known(*files), cursor)
        assert not read.new
        assert read.reason == "no new files in /landing"


def test_a_clock_that_jumps_ahead_and_back_makes_no_file_invisible():
    first = decided([file("a", 10)], now=1_000_000)
    later = decided([file("a", 10), file("b", 900)], known(file("a", 10)), first.cursor, now=1_000)
    assert names(later) == ["b"]


def test_a_file_still_being_written_waits_and_is_not_lost():
    files = [file("a", 10), file("b", 998)]
    first = decided(files)
    assert names(first) == ["a"]
    assert first.metadata["files_not_whole"] == 1
    waits = decided(files, known(files[0]), first.cursor)
    assert waits.reason == "no new files in /landing (1 still being written)"
    assert names(decided(files, known(files[0]), waits.cursor, now=1_010)) == ["b"]


def test_a_file_of_a_server_whose_clock_is_ahead_is_whole_once_two_ticks_saw_it_unchanged():
    first = decided([file("a", 50_000)])
    assert first.reason == "no new files in /landing (1 still being written)"
    grown = decided([file("a", 50_003, size=20)], cursor=first.cursor, now=1_005)
    assert not grown.new
    assert names(decided([file("a", 50_003, size=20)], cursor=grown.cursor, now=1_010)) == ["a"]


def test_a_file_waits_for_its_marker_however_long_and_is_not_overtaken():
    files = [file("a", 10, marked=False), file("b", 500, marked=True)]
    first = decided(files)
    assert names(first) == ["b"]
    waits = decided(files, known(files[1]), first.cursor)
    assert waits.reason == "no new files in /landing (1 without their done-marker)"
    marked = [file("a", 999, marked=True), files[1]]
    assert names(decided(marked, known(files[1]), waits.cursor)) == ["a"]


def test_what_comes_while_the_folder_is_listed_waits_for_the_next_tick():
    assert not decided([file("a", 1000.001, marked=True)]).new


MINUTE = 60


def asked_at(files_at, until: int, *, read=(), cursor: str | None = None, since: int = 1_000) -> list[int]:
    """When runs are asked for, of which none reads anything, in seconds since the first tick."""
    asked = list[int]()
    for now in range(since, until, 20):
        decision = decided(files_at(now), known(*read), cursor, now=now)
        cursor = decision.cursor
        if decision.new:
            asked.append((now - since) // MINUTE)
    return asked


LATER = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 496, 736, 976, 1216]


@pytest.mark.parametrize(
    "files_at",
    [lambda _: [file("a", 10), file("b", 20)], lambda now: [file(str(n), n) for n in range(0, now - 60, 600)]],
    ids=["the same files", "files land all the time"],
)
def test_files_that_no_run_reads_are_asked_for_ever_later(files_at):
    assert asked_at(files_at, 60 * 24 * MINUTE) == LATER


def test_what_was_read_ends_the_wait():
    first = decided([file("a", 10)])
    second = decided([file("a", 10), file("b", 20)], known(file("a", 10)), first.cursor, now=1_005)
    assert second.new == 1
    held = decided([file("a", 10), file("b", 20)], known(file("a", 10)), second.cursor, now=1_010)
    assert held.reason == (
        "1 file is new, and the last run read nothing: see why it failed; another one starts in 1 min"
    )
    assert decided([file("a", 10), file("b", 20)], known(file("a", 10)), held.cursor, now=1_066).new == 1
    assert not decided([file("a", 10)], known(file("a", 10)), held.cursor).new, "it was run by hand"


def test_a_clock_that_goes_back_holds_no_attempt_up():
    first = decided([file("a", 10)], now=100_000)
    assert decided([file("a", 10)], cursor=first.cursor, now=1_000).new


def test_a_run_that_broke_off_is_asked_for_again_though_no_file_is_new():
    read = [file("a", 10)]
    decision = decided(read, known(*read), unfinished=True)
    assert decision.new == 1
    held = decided(read, known(*read), decision.cursor, unfinished=True, now=1_005)
    assert held.reason.startswith("an interrupted run has left work, and the last run read nothing")
    again = decided(read, known(*read), decision.cursor, unfinished=True, now=1_060)
    assert again.new
    assert not decided(read, known(*read), again.cursor).new


def test_a_file_that_has_changed_since_it_was_read_is_told_by_one_run():
    before, after = file("a", 10), file("a", 900, size=11)
    first = decided([after], known(before))
    assert names(first) == ["a"]
    assert (first.metadata["new_files"], first.metadata["files_changed"]) == (0, 1)
    second = decided([after], known(before), first.cursor)
    assert second.reason == "no new files in /landing (1 changed since they were read: see the last run of ingest)"
    third = decided([after, file("b", 20)], known(before), second.cursor)
    assert names(third) == ["b"]
    assert not decided([after, file("b", 20)], known(before, file("b", 20)), third.cursor).new


def test_a_file_that_is_gone_changes_nothing():
    assert not decided([file("a", 10)], known(file("a", 10), file("b", 20))).new
    assert decided([]).reason == "no files in /landing"


def test_the_cursor_stays_small_however_many_files_there_are():
    decision = decided([file(f"{n}", (n + 1) / 1000) for n in range(100_000)])
    assert decision.new == 100_000
    assert len(decision.cursor or "") < 200
    assert len(names(decision)) == 10
    ahead = decided([file(f"{n}", 2_000) for n in range(100_000)])
    assert len(ahead.cursor or "") < 100_000


@pytest.mark.parametrize("cursor", ["yesterday", '{"when": 1}', "[]", "20000000000"])
def test_a_cursor_that_is_none_is_refused_with_the_remedy(cursor):
    with pytest.raises(KeyfoldError, match="reset it to empty"):
        decided([file("a", 10)], cursor=cursor)


def test_a_file_moved_in_with_an_old_modification_time_is_new(tmp_path):
    (tmp_path / "late").touch()
    os.utime(tmp_path / "late", (1, 1))
    time.sleep(0.02)
    assert names(look_at_folder(tmp_path, None, settle=timedelta(0))) == ["late"]


def test_a_folder_that_is_missing_or_none_is_a_reason_not_an_error(tmp_path):
    assert "does not exist yet" in look_at_folder(tmp_path / "landing", None).reason
    (tmp_path / "landing").touch()
    reason = look_at_folder(tmp_path / "landing", "7").reason
    assert "cannot be read (Not a directory)" in reason
    assert look_at_folder(tmp_path / "landing", "7").cursor == "7"


def test_a_folder_that_may_not_be_read_is_a_reason_that_says_who_wants_to(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    assert "(Permission denied): the user " in look_at_folder(tmp_path, None).reason


def test_a_part_that_may_not_be_read_is_warned_of_and_the_rest_goes_on():
    found = Listing((file("a", 10),), ("/landing/closed",))
    decision = decide_on_files(found, {}, None, NOW, folder=FOLDER)
    assert names(decision) == ["a"]
    assert decision.warnings == ("the folder /landing/closed cannot be read; its files wait",)


@dg.op
def nothing() -> None: ...


@dg.job(name="rides")
def rides_like():
    nothing()


def tick(
    instance: dg.DagsterInstance,
    lakehouse: Lakehouse,
    cursor: str | None = None,
    settle: int = 0,
):
    sensor = landing_sensor(RIDE_POINTS, settle=timedelta(seconds=settle))
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"keyfold": Keyfold(lakehouse, Runners("local"))}
    ) as context:
        return sensor(context)


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
    assert "does not exist yet" in str(tick(instance, lakehouse))
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
    ingest(lakehouse, RIDE_POINTS, runners=no_spark(1))
    assert "no new files" in str(tick(instance, lakehouse, cursor=told.cursor))


def test_a_run_of_ingest_that_failed_is_asked_for_again_a_minute_later(instance, lakehouse, monkeypatch):
    land(lakehouse, "a.ndjson")
    first = tick(instance, lakehouse)
    assert isinstance(first, dg.SensorResult)
    run = instance.create_run_for_job(
        rides_like, status=dg.DagsterRunStatus.STARTED, tags={"dagster/sensor_name": "ride_points_landed"}
    )
    instance.report_run_failed(run)
    assert "the last run read nothing" in str(tick(instance, lakehouse, first.cursor))
    later = time.time_ns() + 61 * SECOND
    monkeypatch.setattr(time, "time_ns", lambda: later)
    again = tick(instance, lakehouse, first.cursor)
    assert isinstance(again, dg.SensorResult)
    assert again.run_requests is not None
    assert again.run_requests[0].tags == {"keyfold/new": "1"}


def test_the_sensor_holds_back_while_a_run_is_not_over_and_keeps_its_cursor(instance, lakehouse):
    land(lakehouse, "a.ndjson")
    run = instance.create_run_for_job(
        rides_like, status=dg.DagsterRunStatus.STARTED, tags={"dagster/sensor_name": "ride_points_landed"}
    )
    held = tick(instance, lakehouse)
    assert isinstance(held, dg.SkipReason)
    assert run.run_id in str(held)
    instance.report_run_canceled(run)
    assert isinstance(tick(instance, lakehouse), dg.SensorResult)
