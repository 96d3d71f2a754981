"""A run of ingest reads files that are new and whole, and no others; it knows all that were read, and tells what has changed."""

import json
import os
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import polars as pl
import pytest
from deltalake import DeltaTable

from keyfold.errors import KeyfoldError
from keyfold.ingestion import known_files, split_reader
from keyfold.ingestion.admission import Admission, select_files
from keyfold.ingestion.known import KnownFile, known_file
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import Place
from spark_jobs.streams import METRICS, SALES
from tests.folders import move_folder
from tests.lake import LOCAL
from tests.landings import metric, put, quarantine

KNOWN = {"path": pl.String} | KnownFile.__annotations__
NO_TIME, SHORT = timedelta(0), timedelta(seconds=0.3)


AnyPlace = TypeVar("AnyPlace", bound=Place)


def look(
    landing: DiskPath, known: dict[str, KnownFile] | None = None, settle: timedelta = NO_TIME, **options
) -> Admission:
    rows = [(path, *version) for path, version in (known or {}).items()]
    return select_files(
        landing,
        pl.DataFrame(rows, KNOWN, orient="row"),
        settle=settle,
        **({"done_marker": False, "reread_changed": False} | options),
    )


def paths(admission: Admission) -> list[str]:
    return [file.path for file in admission.files]


def read(admission: Admission) -> dict[str, KnownFile]:
    """What is known once the admitted files are read."""
    return {file.path: known_file(file) for file in admission.files}


def test_files_just_copied_are_given_the_time_to_settle_and_those_that_were_read_are_not(landing):
    put(landing / "a.json")
    began = time.monotonic()
    first = look(landing, settle=SHORT)
    assert 0.1 < time.monotonic() - began < 2
    assert paths(first) == ["a.json"]
    began = time.monotonic()
    look(landing, read(first), settle=timedelta(seconds=5))
    assert time.monotonic() - began < 0.2


def test_a_file_that_is_written_all_the_while_waits_and_holds_no_other_up(landing, monkeypatch):
    put(landing / "a.json")
    slow = put(landing / "slow.json")
    sleep = time.sleep

    def meanwhile(seconds: float) -> None:
        sleep(seconds)
        # Other threads of this process sleep too, Spark's among them.
        if threading.current_thread() is threading.main_thread():
            with slow.open("a") as file:
                file.write("{}\n")

    monkeypatch.setattr(time, "sleep", meanwhile)
    first = look(landing, settle=SHORT)
    assert (paths(first), first.waiting) == (["a.json"], 1)
    monkeypatch.undo()
    assert paths(look(landing, read(first), settle=SHORT)) == ["slow.json"]


def test_a_file_that_does_not_change_while_it_is_waited_for_is_whole_though_the_server_s_clock_is_ahead(
    landing, monkeypatch
):
    put(landing / "a.json")
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3_600_000_000_000)
    began = time.monotonic()
    assert paths(look(landing, settle=SHORT)) == ["a.json"]
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("12345\n67\n", "grew from 6 to 9 bytes"),
        ("12\n", "shrank from 6 to 3 bytes"),
        ("54321\n", "was rewritten (6 bytes as before)"),
    ],
)
def test_a_file_that_has_changed_since_it_was_read_is_told_with_what_changed(landing, content, what):
    put(landing / "a.json", "12345\n")
    known = read(look(landing))
    times = (landing / "a.json").stat()
    put(landing / "a.json", content)
    # As a tool that keeps times leaves it: the kernel's time of the change alone tells.
    os.utime(landing / "a.json", ns=(times.st_atime_ns, times.st_mtime_ns))
    admission = look(landing, known)
    assert (paths(admission), admission.changed) == ([], {"a.json": what})
    again = look(landing, known, reread_changed=True)
    assert (paths(again), again.changed) == (["a.json"], {"a.json": what})
    assert look(landing, read(again)).changed == {}


def test_a_file_that_was_only_touched_is_no_other_file(landing):
    put(landing / "a.json", "12345\n")
    known = read(look(landing))
    os.utime(landing / "a.json", (1, 1))
    admission = look(landing, known)
    assert (paths(admission), admission.changed, list(admission.touched)) == ([], {}, ["a.json"])


def test_a_known_file_costs_a_look_at_its_status_alone_and_no_content_is_compared(landing, monkeypatch):
    for number in range(50):
        put(landing / f"{number % 3}/{number}.json", f"{number}\n")
    known = read(look(landing))
    assert len(known) == 50
    digests: list[Path] = []
    fingerprint = DiskPath.fingerprint
    monkeypatch.setattr(DiskPath, "fingerprint", lambda path, within: digests.append(path) or fingerprint(path, within))
    put(landing / "1/1.json", "one\n")
    put(landing / "2/new.json")
    found = look(landing, known, reread_changed=True)
    assert paths(found) == ["1/1.json", "2/new.json"]
    assert [path.name for path in digests] == ["1.json", "new.json"]


def test_a_link_out_of_the_folder_is_told_once_and_a_file_in_its_place_is_new(landing):
    outside = put(landing.parent / "secret")
    (landing / "a.json").symlink_to(outside)
    first = look(landing)
    (file,) = first.files
    assert file.refused
    known = {"a.json": known_file(file)}
    assert paths(look(landing, known)) == []
    (landing / "a.json").unlink()
    put(landing / "a.json")
    assert [one.refused for one in look(landing, known).files] == [None]


def test_a_landing_folder_that_cannot_be_read_says_so(tmp_path):
    with pytest.raises(KeyfoldError, match="cannot be read: Not a directory"):
        look(put(tmp_path / "file"))


# in whole runs


def sale(number: int) -> str:
    return json.dumps({"item": "watch", "quantity": number, "time": "2026-01-01T00:00:00Z"}) + "\n"


def values(lakehouse: Lakehouse) -> list[tuple[str, float]]:
    rows = DeltaTable(str(lakehouse.events("metrics"))).to_pyarrow_table().to_pylist()
    return sorted((row["key"], row["value"]) for row in rows)


def test_half_a_file_is_never_read(lakehouse: Lakehouse, landing: DiskPath):
    stream = replace(METRICS, done_marker=True)
    put(landing / "day 1" / "cpu%.json", metric(1) + metric(2))
    put(landing / "day 1" / "_SUCCESS")
    half = put(landing / "day 2" / "cpu%.json", metric(3)[:10])
    first = ingest(lakehouse, stream, landing, runners=LOCAL)
    assert (first.files, first.accepted, first.waiting) == (1, 2, 1)
    half.write_text(metric(3) + metric(4))
    put(landing / "day 2" / "cpu%.json.done")
    second = ingest(lakehouse, stream, landing, runners=LOCAL)
    assert (second.files, second.accepted, second.quarantined, second.waiting) == (1, 2, 0, 0)
    assert values(lakehouse) == [("day 1/cpu%", 1), ("day 1/cpu%", 2), ("day 2/cpu%", 3), ("day 2/cpu%", 4)]
    put(landing / "day 3" / "bad.json", "no json\n")
    put(landing / "day 3" / "_SUCCESS")
    ingest(lakehouse, stream, landing, runners=LOCAL)
    (reject,) = quarantine(lakehouse)
    assert reject["file"] == str(landing / "day 3" / "bad.json"), "told by its own path"


def test_a_file_that_grew_is_told_by_every_run_and_read_again_where_that_is_asked_for(
    lakehouse: Lakehouse, landing: DiskPath
):
    put(landing / "cpu.json", metric(1))
    ingest(lakehouse, METRICS, landing, runners=LOCAL)
    put(landing / "cpu.json", metric(1) + metric(2))
    for _ in range(2):
        told = ingest(lakehouse, METRICS, landing, runners=LOCAL)
        assert (told.files, told.accepted) == (0, 0)
        assert told.describe() == [
            "cpu.json grew from 50 to 100 bytes after it was read; it was not read again; --reread-changed "
            "(in Dagster: reread_changed) does so for streams with an event id"
        ]
    again = ingest(lakehouse, METRICS, landing, reread_changed=True, runners=LOCAL)
    assert (again.files, again.accepted, again.duplicates) == (1, 1, 1)
    assert values(lakehouse) == [("cpu", 1), ("cpu", 2)]
    assert ingest(lakehouse, METRICS, landing, runners=LOCAL).describe() == []


def test_many_files_are_known_by_the_table_at_once_and_few_by_the_journal(lakehouse: Lakehouse, landing, monkeypatch):
    monkeypatch.setattr("keyfold.ingestion.known._MANY", 3)
    for number in range(3):
        put(landing / f"{number}.json", metric(number))
        assert ingest(lakehouse, METRICS, landing, runners=LOCAL).files == 1
    tables = lakehouse.ingest("metrics") / "files"
    assert not list(tables.glob("*"))
    for number in range(3, 6):
        put(landing / f"{number}.json", metric(number))
    assert ingest(lakehouse, METRICS, landing, runners=LOCAL).files == 3
    assert [path.name for path in tables.glob("*")] == ["known-000000003.parquet"]
    assert ingest(lakehouse, METRICS, landing, runners=LOCAL).files == 0
    assert len(known_files(lakehouse, "metrics", landing)) == 6


def test_changed_files_of_a_stream_without_an_event_id_are_not_read_again(lakehouse: Lakehouse, landing: DiskPath):
    with pytest.raises(KeyfoldError, match="no event id, so rows that are read again would count twice"):
        ingest(lakehouse, SALES, landing, reread_changed=True, runners=LOCAL)
    assert not lakehouse.home.exists()


def test_a_home_that_moves_reads_nothing_twice(lakehouse: Lakehouse, tmp_path: DiskPath):
    before, after = lakehouse, Lakehouse(lakehouse.home.with_name("after"))
    put(before.landing("sales") / "a.json", "".join(map(sale, range(5))))
    outside = put(tmp_path / "outside" / "b.json", sale(5)).parent
    ingest(before, SALES, runners=LOCAL)
    ingest(before, SALES, outside, runners=LOCAL)
    move_folder(before.home, after.home)
    put(after.landing("sales") / "c.json", sale(6))
    assert ingest(after, SALES, runners=LOCAL).accepted == 1
    assert ingest(after, SALES, outside, runners=LOCAL).files == 0
    assert DeltaTable(str(after.events("sales"))).count() == 7


def test_a_file_that_changes_while_it_is_read_counts_for_nothing_and_is_read_by_the_next_run(
    lakehouse: Lakehouse, landing: DiskPath, monkeypatch: pytest.MonkeyPatch
):
    put(landing / "a.json", metric(1))
    growing = put(landing / "b.json", metric(2))
    real = split_reader.parse_file_safely

    def parse(stream, path, *rest):
        yield from real(stream, path, *rest)
        if path == growing:
            with growing.open("a") as file:
                file.write(metric(3))

    with monkeypatch.context() as patch:
        patch.setattr(split_reader, "parse_file_safely", parse)
        first = ingest(lakehouse, METRICS, landing, runners=LOCAL)
    assert (first.files, first.accepted, first.waiting) == (1, 1, 1)
    assert list(known_files(lakehouse, "metrics", landing)) == ["a.json"]
    second = ingest(lakehouse, METRICS, landing, runners=LOCAL)
    assert (second.files, second.accepted, second.totals.rows_read) == (1, 2, 3)
    assert values(lakehouse) == [("a", 1), ("b", 2), ("b", 3)]
