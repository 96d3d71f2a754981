"""Files that may do harm, in whole runs: links out of the landing folder, and files in which bits have flipped."""

import gzip
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.ingestion import child
from keyfold.ingestion.parsing import parse_file_safely
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from keyfold.stream import Stream
from spark_jobs.streams import METRICS
from tests.landings import ROWS_OF_PARQUET, check_counts, local_runners, metric, parquet, put, quarantine, rows
from tests.power_cuts import power_cut_at
from tests.schemas import schema_of


def test_a_file_in_whose_place_a_link_leads_out_once_it_is_planned_is_quarantined(
    lakehouse: Lakehouse, landing: DiskPath
):
    path = put(landing / "cpu.json", metric(1))
    with power_cut_at("plan: after"):
        ingest(lakehouse, METRICS, landing, runners=local_runners(1))
    # With the content that was planned: else it would be a file that has changed, and wait.
    path.rename(landing.parent / "elsewhere.json")
    path.symlink_to(landing.parent / "elsewhere.json")
    summary = ingest(lakehouse, METRICS, landing, runners=local_runners(1))
    assert (summary.accepted, summary.quarantined) == (0, 1)
    (reject,) = quarantine(lakehouse)
    assert reject["reason"].startswith("the link leads out of the landing folder")


EVENTS = Stream("metrics", schema_of("key string, timestamp time!, value float64"), "timestamp")


def compressed() -> bytes:
    line = '{"key": "x", "timestamp": "2026-01-01T00:00:00Z", "value": 1}\n'
    return gzip.compress((line * ROWS_OF_PARQUET).encode(), mtime=0)


@pytest.mark.parametrize(("ending", "content", "flips"), [("parquet", parquet(), 200), ("json.gz", compressed(), 100)])
def test_files_in_which_a_bit_has_flipped_are_read_or_quarantined_by_name_and_stop_no_other(
    lakehouse: Lakehouse, landing: DiskPath, ending: str, content: bytes, flips: int
):
    seeded = random.Random(35)
    for number in range(flips):
        flipped = bytearray(content)
        bit = seeded.randrange(len(content) * 8)
        flipped[bit // 8] ^= 1 << bit % 8
        (landing / f"{number:03d}.{ending}").write_bytes(flipped)
    put(landing / "last.json", metric(1))
    summary = ingest(lakehouse, EVENTS, landing, runners=local_runners(1))
    check_counts(lakehouse, summary, EVENTS)
    assert summary.files == flips + 1
    unreadable = [row for row in quarantine(lakehouse) if row["line"] is None]
    assert len({row["file"] for row in unreadable}) == len(unreadable) > flips // 5
    assert all(row["raw"] is None and row["reason"].startswith("the file ") for row in unreadable)
    assert "1.0" in {str(row[2]) for row in rows(lakehouse.events("metrics"))}
    assert ingest(lakehouse, EVENTS, landing, runners=local_runners(1)).files == 0


def test_a_date_that_panics_polars_makes_its_file_unreadable(lakehouse: Lakehouse, landing: DiskPath):
    (landing / "a.parquet").write_bytes(
        parquet(key=pa.array([1 << 30] * ROWS_OF_PARQUET, pa.int32()).cast(pa.date32()))
    )
    (landing / "b.parquet").write_bytes(parquet())
    summary = ingest(lakehouse, EVENTS, landing, runners=local_runners(1))
    assert (summary.files, summary.accepted) == (2, ROWS_OF_PARQUET)
    assert {Path(row["file"]).name for row in quarantine(lakehouse)} == {"a.parquet"}


@pytest.mark.parametrize(
    ("crashes", "accepted", "reason"), [(1, ROWS_OF_PARQUET, None), (2, 0, "its reader crashed (SIGABRT)")]
)
def test_a_file_whose_reader_crashes_is_tried_again_in_another_process(
    lakehouse: Lakehouse,
    landing: DiskPath,
    monkeypatch: pytest.MonkeyPatch,
    crashes: int,
    accepted: int,
    reason: str | None,
):
    (landing / "a.parquet").write_bytes(parquet())
    put(landing / "b.json", metric(1))
    left, start = [signal.SIGABRT] * crashes, child._Child.__init__

    def starts_and_crashes(self: child._Child) -> None:
        start(self)
        if left:
            os.kill(self._process.pid, left.pop())

    child.end_children()
    monkeypatch.setattr(child._Child, "__init__", starts_and_crashes)
    summary = ingest(lakehouse, EVENTS, landing, runners=local_runners(1))
    assert (summary.files, summary.accepted) == (2, accepted + 1)
    assert [row["reason"] for row in quarantine(lakehouse)] == [f"the file cannot be read: {reason}"] * (crashes - 1)


def parsed(path: Path) -> int:
    found = parse_file_safely(EVENTS, to_place(path), datetime.now(UTC), to_place(path.parent), None)
    return sum(rows.accepted.height for rows in found)


def test_a_reader_that_answers_no_more_is_ended(landing: DiskPath, monkeypatch: pytest.MonkeyPatch):
    (landing / "a.parquet").write_bytes(parquet())
    assert parsed(landing / "a.parquet") == ROWS_OF_PARQUET
    hangs = child._idle[os.getpid()][-1]
    os.kill(hangs._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(child, "SILENCE", 0.1)
    with pytest.raises(child.ChildEndedError, match=r"has not gone on for 0\.1 s"):
        parsed(landing / "a.parquet")
    assert not hangs.is_usable


def test_threads_that_parse_at_the_same_time_get_the_rows_of_their_own_files(landing: DiskPath):
    paths = [landing / f"{at}.parquet" for at in range(3)]
    for path in paths:
        path.write_bytes(parquet())
    found = [parse_file_safely(EVENTS, path, datetime.now(UTC), landing, None) for path in paths]
    # Each is begun before another one is read to its end.
    first = [next(rows).accepted.height for rows in found]
    assert first == [ROWS_OF_PARQUET] * 3
    assert [sum(rows.accepted.height for rows in left) for left in found] == [0] * 3
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(parsed, paths * 5)) == [ROWS_OF_PARQUET] * 15
    assert len({one._process.pid for one in child._idle[os.getpid()]}) <= 4
