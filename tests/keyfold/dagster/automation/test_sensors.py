"""The sensors on new data: pure decisions, and what Dagster is told of them."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import dagster as dg
import pytest

from keyfold.dagster.automation.new_data import Decision, decide_on_files, look_at_folder
from keyfold.dagster.automation.sensors import landing_sensor
from keyfold.dagster.resources import Keyfold
from keyfold.errors import KeyfoldError
from keyfold.ingestion.known import KnownFile
from keyfold.ingestion.listing import LandedFile, Listing
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.storage.disk_path import DiskPath
from spark_jobs.streams import RIDE_POINTS
from tests.landings import local_runners

SECOND = 1_000_000_000
NOW = 1_000 * SECOND
FOLDER = DiskPath("/landing")


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


class Tick(NamedTuple):
    """The files that a tick sees, and those that ingest has read; what is new then, or why nothing is."""

    files: Sequence[LandedFile]
    new: str = ""
    why: str = ""
    read: Sequence[LandedFile] = ()
    now: float = 1_000
    unfinished: bool = False


A, B, GROWN = file("a", 10), file("b", 20), file("a", 900, size=11)
NONE_NEW, WRITING = "no new files in /landing", "no new files in /landing (1 still being written)"
WAITING, MARKED = file("a", 10, marked=False), file("b", 500, marked=True)
HELD = "1 file is new, and the last run read nothing: see why it failed; another one starts in 1 min"
BROKE_OFF = (
    "an interrupted run has left work, and the last run read nothing: see why it failed; another one starts in 1 min"
)
CHANGED = "no new files in /landing (1 changed since they were read: see the last run of ingest)"
STORIES = {
    "every settled file is new, and all go into one run": [Tick([A, B], "ab"), Tick([A, B], why=NONE_NEW, read=[A, B])],
    "what ingest has read is not new without a cursor": [Tick([A, B], why=NONE_NEW, read=[A, B])],
    "a clock that jumps ahead and back makes no file invisible": [
        Tick([A], "a", now=1_000_000), Tick([A, file("b", 900)], "b", read=[A]),
    ],
    "a file still being written waits and is not lost": [
        Tick([A, file("b", 998)], "a"),
        Tick([A, file("b", 998)], why=WRITING, read=[A]),
        Tick([A, file("b", 998)], "b", read=[A], now=1_010),
    ],
    "a file of a server whose clock is ahead is whole once two ticks saw it unchanged": [
        Tick([file("a", 50_000)], why=WRITING),
        Tick([file("a", 50_003, size=20)], why=WRITING, now=1_005),
        Tick([file("a", 50_003, size=20)], "a", now=1_010),
    ],
    "a file waits for its marker however long and is not overtaken": [
        Tick([WAITING, MARKED], "b"),
        Tick([WAITING, MARKED], why="no new files in /landing (1 without their done-marker)", read=[MARKED]),
        Tick([file("a", 999, marked=True), MARKED], "a", read=[MARKED]),
    ],
    "what comes while the folder is listed waits": [Tick([file("a", 1000.001, marked=True)], why=WRITING)],
    "what was read ends the wait": [
        Tick([A], "a"),
        Tick([A, B], "b", read=[A], now=1_005),
        Tick([A, B], why=HELD, read=[A], now=1_010),
        Tick([A, B], "b", read=[A], now=1_066),
        Tick([A], why=NONE_NEW, read=[A], now=1_067),
    ],
    "a clock that goes back holds no attempt up": [Tick([A], "a", now=100_000), Tick([A], "a")],
    "a run that broke off is asked for again though no file is new": [
        Tick([A], "-", read=[A], unfinished=True),
        Tick([A], why=BROKE_OFF, read=[A], unfinished=True, now=1_005),
        Tick([A], "-", read=[A], unfinished=True, now=1_060),
        Tick([A], why=NONE_NEW, read=[A], now=1_060),
    ],
    "a file that has changed since it was read is told by one run": [
        Tick([GROWN], "a", read=[A]),
        Tick([GROWN], why=CHANGED, read=[A]),
        Tick([GROWN, B], "b", read=[A]),
        Tick([GROWN, B], why=CHANGED, read=[A, B]),
    ],
    "a file that is gone changes nothing": [Tick([A], why=NONE_NEW, read=[A, B]), Tick([], why="no files in /landing")],
}  # fmt: skip


@pytest.mark.parametrize("ticks", STORIES.values(), ids=STORIES)
def test_what_is_new_starts_a_run_and_what_is_not_says_why(ticks: list[Tick]):
    cursor = None
    for one in ticks:
        decision = decided(one.files, known(*one.read), cursor, one.now, unfinished=one.unfinished)
        assert ("".join(names(decision)) or "-" * decision.new, decision.reason) == (one.new, one.why)
        cursor = decision.cursor


def test_a_decision_counts_what_is_not_whole_and_what_has_changed():
    told = decided([GROWN, B, file("c", 998)], known(A)).metadata
    assert [told[name] for name in ("new_files", "files_not_whole", "files_changed")] == [1, 1, 1]


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
    found = look_at_folder(tmp_path / "landing", "7")
    assert "cannot be read (Not a directory): the user " in found.reason
    assert found.cursor == "7"


def test_a_part_that_may_not_be_read_is_warned_of_and_the_rest_goes_on():
    found = Listing((file("a", 10),), {"closed": "Permission denied"})
    decision = decide_on_files(found, {}, None, NOW, folder=FOLDER)
    assert names(decision) == ["a"]
    assert decision.warnings == (f"{FOLDER}/closed cannot be read (Permission denied), and waits",)


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


def test_the_sensor_skips_with_a_reason_where_there_is_nothing_or_nothing_settled(instance, lakehouse):
    assert "does not exist yet" in str(tick(instance, lakehouse))
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
    ingest(lakehouse, RIDE_POINTS, runners=local_runners(1))
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
