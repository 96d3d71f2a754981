"""Admission: a run of ingest reads files that are whole, and no others, however they came to be there."""

import json
import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.errors import KeyfoldError
from spark_jobs.ingest import ingest
from spark_jobs.ingest.admission import admit
from spark_jobs.ingest.counts import Ledger
from spark_jobs.ingest.run import source_id
from spark_jobs.lakehouse import Lakehouse, read_json, write_json
from spark_jobs.streams import METRICS

NO_TIME, SHORT = timedelta(0), timedelta(seconds=0.3)


def put(path: Path, text: str = "{}\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    return tmp_path / "landing"


@pytest.fixture
def links(tmp_path: Path) -> Path:
    return tmp_path / "admitted"


def linked(links: Path) -> list[str]:
    return sorted(os.path.relpath(path, links) for path in links.rglob("*") if path.is_symlink())


def test_without_a_settling_time_every_file_is_admitted(landing, links):
    put(landing / "a.json")
    put(landing / "deep" / "b.json")
    assert admit(landing, links, settle=NO_TIME, done_marker=False) == 0
    assert linked(links) == ["a.json", "deep/b.json"]
    assert (links / "deep" / "b.json").read_text() == "{}\n"


def test_files_just_copied_are_given_the_time_to_settle(landing, links):
    put(landing / "a.json")
    began = time.monotonic()
    assert admit(landing, links, settle=SHORT, done_marker=False) == 0
    assert 0.1 < time.monotonic() - began < 2
    assert linked(links) == ["a.json"]
    began = time.monotonic()
    admit(landing, links, settle=SHORT, done_marker=False)
    assert time.monotonic() - began < 0.2, "what has settled costs no time"


def test_a_file_that_is_written_all_the_while_waits_and_holds_no_other_up(landing, links, monkeypatch):
    put(landing / "a.json")
    slow = put(landing / "slow.json")
    sleep = time.sleep

    def meanwhile(seconds: float) -> None:
        sleep(seconds)
        with slow.open("a") as file:
            file.write("{}\n")

    monkeypatch.setattr(time, "sleep", meanwhile)
    assert admit(landing, links, settle=SHORT, done_marker=False) == 1
    assert linked(links) == ["a.json"]
    monkeypatch.undo()
    assert admit(landing, links, settle=SHORT, done_marker=False) == 0
    assert linked(links) == ["a.json", "slow.json"]


def test_with_done_markers_a_file_is_admitted_with_its_marker_and_stays_when_that_is_cleared_away(landing, links):
    put(landing / "a.json")
    put(landing / "b.json")
    marker = put(landing / "a.json.done")
    assert admit(landing, links, settle=SHORT, done_marker=True) == 1
    marker.unlink()
    assert admit(landing, links, settle=SHORT, done_marker=True) == 1
    assert linked(links) == ["a.json"]


def test_links_go_with_their_files_and_a_folder_may_take_a_file_s_place(landing, links):
    put(landing / "a")
    put(landing / "b")
    admit(landing, links, settle=NO_TIME, done_marker=False)
    (landing / "a").unlink()
    put(landing / "a" / "c")
    (landing / "b").unlink()
    admit(landing, links, settle=NO_TIME, done_marker=False)
    assert linked(links) == ["a/c"]


def test_a_landing_folder_that_cannot_be_read_says_so(tmp_path, links):
    with pytest.raises(KeyfoldError, match="cannot be read: Not a directory"):
        admit(put(tmp_path / "file"), links, settle=NO_TIME, done_marker=False)


def metric(number: int) -> str:
    return json.dumps({"timestamp": "2026-01-01T00:00:00Z", "value": number}) + "\n"


def values(lakehouse: Lakehouse) -> list[tuple[str, float]]:
    rows = DeltaTable(str(lakehouse.events("metrics"))).to_pyarrow_table().to_pylist()
    return sorted((row["key"], row["value"]) for row in rows)


def test_half_a_file_is_never_read(spark: SparkSession, lakehouse: Lakehouse, landing: Path):
    stream = replace(METRICS, done_marker=True)
    put(landing / "day 1" / "cpu%.json", metric(1) + metric(2))
    put(landing / "day 1" / "_SUCCESS")
    half = put(landing / "day 2" / "cpu%.json", metric(3)[:10])
    first = ingest(spark, lakehouse, stream, landing)
    assert (first.files, first.accepted, first.waiting) == (1, 2, 1)
    half.write_text(metric(3) + metric(4))
    put(landing / "day 2" / "cpu%.json.done")
    second = ingest(spark, lakehouse, stream, landing)
    assert (second.files, second.accepted, second.quarantined, second.waiting) == (1, 2, 0, 0)
    assert values(lakehouse) == [("day 1/cpu%", 1), ("day 1/cpu%", 2), ("day 2/cpu%", 3), ("day 2/cpu%", 4)]
    put(landing / "day 3" / "bad.json", "no json\n")
    put(landing / "day 3" / "_SUCCESS")
    ingest(spark, lakehouse, stream, landing)
    (reject,) = DeltaTable(str(lakehouse.quarantine("metrics"))).to_pyarrow_table().to_pylist()
    assert reject["file"] == str(landing / "day 3" / "bad.json"), "told by its own path"


def test_a_checkpoint_from_before_there_were_links_reads_nothing_twice(
    spark: SparkSession, lakehouse: Lakehouse, landing: Path, monkeypatch: pytest.MonkeyPatch
):
    put(landing / "a.json", metric(1))
    monkeypatch.setattr(Ledger, "admits", lambda _: False)
    ingest(spark, lakehouse, METRICS, landing)
    monkeypatch.undo()
    source = lakehouse.ingest("metrics") / source_id(landing) / "source.json"
    write_json(source, {name: value for name, value in read_json(source).items() if name != "admits"})
    put(landing / "b.json", metric(2))
    again = ingest(spark, lakehouse, METRICS, landing)
    assert (again.files, again.accepted, again.duplicates) == (1, 1, 0)
