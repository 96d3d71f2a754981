"""Batches and splits: files of which all rows are copies, disks that are full, and what is told; any split and crash: `test_window.py`."""

import errno
from dataclasses import asdict
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest

from keyfold.errors import KeyfoldError
from keyfold.ingestion import batch, ingest_journal, ingest_totals, is_unfinished, split_writer
from keyfold.journal import Journal
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.lakehouse.reading import data_file_paths
from keyfold.runners import Runners
from keyfold.runners.local_runner import LocalRunner
from keyfold.runs import ingest
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import Place
from tests.landings import EVENTS, check_counts, event, land, local_runners, stored
from tests.power_cuts import OF_INGEST


def several(landing: Place) -> None:
    for number in range(6):
        events = [event(f"u{seq % 4}", seq, seq / 10) for seq in range(number * 50, number * 50 + 80)]
        land(landing / f"{number}.json", events[::-1], "rubbish")


def test_spark_s_workers_write_what_the_driver_would(spark: Runners, new_home, tmp_path: DiskPath, monkeypatch):
    several(tmp_path / "landing")
    here, there = new_home("here"), new_home("there")
    ingest(here, EVENTS, tmp_path / "landing", runners=local_runners(1))
    monkeypatch.setattr(batch, "_SPLIT_BYTES", 1)
    summary = ingest(there, EVENTS, tmp_path / "landing", runners=spark)
    check_counts(there, summary)
    assert stored(there) == stored(here)
    assert asdict(ingest_totals(there, EVENTS)) == asdict(ingest_totals(here, EVENTS))
    files = data_file_paths(there.events("clicks"))
    assert len(files) == 2
    for file in files:
        times = pq.read_table(BytesIO(file.read_bytes()))["at"].to_pylist()
        assert times == sorted(times)


def test_files_of_which_every_row_is_a_copy_are_not_in_the_table(tmp_path: DiskPath, monkeypatch):
    monkeypatch.setattr(batch, "_SPLIT_BYTES", 1)
    lakehouse = Lakehouse(tmp_path / "home")
    for name in ("a", "b", "c"):
        land(lakehouse.landing("clicks") / f"{name}.json", [event("u", seq) for seq in range(50)])
    summary = ingest(lakehouse, EVENTS, runners=local_runners(3))
    check_counts(lakehouse, summary)
    assert (summary.accepted, summary.duplicates) == (50, 100)
    assert len(list(lakehouse.events("clicks").glob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (split_writer, "write_segment"),
        (batch, "merge_segments"),
        (Journal, "write_done"),
        *((fail_points, point) for point in OF_INGEST[::3]),
    ],
)
def test_a_disk_that_is_full_amid_a_write_or_at_any_point_is_one_message_and_the_next_run_goes_on(
    tmp_path: DiskPath, monkeypatch, owner: Any, name: str
):
    lakehouse = Lakehouse(tmp_path / "home")
    several(lakehouse.landing("clicks"))

    def full(*given: Any) -> None:
        if owner is not fail_points or given == (name,):
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(owner, "act" if owner is fail_points else name, full)
        with pytest.raises(KeyfoldError, match="No space left on device; correct that and run it again"):
            ingest(lakehouse, EVENTS, max_bytes_per_batch=10_000, runners=local_runners(2))
    # Of a run whose plans are not all written nothing is left; what was planned is told to whoever asks for the next run.
    assert is_unfinished(lakehouse, "clicks") == (name not in ("plan: before", "plan: one of several"))
    summary = ingest(lakehouse, EVENTS, runners=local_runners(2))
    check_counts(lakehouse, summary)
    assert (summary.totals.accepted, summary.totals.files) == (330, 6)
    assert not is_unfinished(lakehouse, "clicks")


def test_a_run_tells_how_far_it_has_come_of_all(tmp_path: DiskPath):
    lakehouse = Lakehouse(tmp_path / "home")
    several(lakehouse.landing("clicks"))
    told = []
    ingest(lakehouse, EVENTS, max_bytes_per_batch=1, on_batch=told.append, runners=local_runners(2))
    assert [(one.batch, one.batches) for one in told] == [(number, 6) for number in range(1, 7)]
    total = sum(path.stat().st_size for path in lakehouse.landing("clicks").iterdir())
    assert (told[-1].done, told[-1].total, told[-1].share, told[-1].seconds_left) == (total, total, 1.0, 0.0)
    assert [one.done for one in told] == sorted(one.done for one in told)


def test_the_journal_tells_people_what_was_read_and_what_came_of_it(tmp_path: DiskPath):
    lakehouse = Lakehouse(tmp_path / "home")
    land(lakehouse.landing("clicks") / "a.json", [event("u", 1), event("u", 1)], "rubbish")
    ingest(lakehouse, EVENTS, runners=local_runners(1))
    (past,) = ingest_journal(lakehouse, "clicks").history(5)
    assert past.read == "1 file, 0.0 MB of landing/clicks"
    assert past.made == "3 rows: 1 accepted, 1 quarantined, 1 duplicate"
    record = lakehouse.ingest("clicks") / "journal" / "000000000.plan.json"
    assert str(lakehouse.home) not in record.read_text()


@pytest.mark.parametrize(
    ("sizes", "cores", "threads"),
    [
        ((1,), 4, [4]),
        ((1, 1, 1, 1), 4, [1, 1, 1, 1]),
        ((19, 1), 4, [4, 1]),
        ((3, 1), 4, [3, 1]),
        ((1,), 2, [2]),
        ((3, 1), 2, [2, 1]),
    ],
)
def test_all_cores_are_shared_among_splits_by_their_size(lakehouse, monkeypatch, sizes, cores, threads):
    """Of a split not more than its worker has, such as an executor of Spark."""
    for number, size in enumerate(sizes):
        land(
            lakehouse.landing("clicks") / f"{number}.ndjson",
            [event("u", number * 1000 + at) for at in range(size * 20)],
        )
    splits: list[Any] = []
    runners, read_split = local_runners(4), batch.read_split
    monkeypatch.setattr(batch, "_SPLIT_BYTES", 1)
    monkeypatch.setattr(LocalRunner, "cores_per_worker", cores)
    monkeypatch.setattr(batch, "read_split", lambda split: splits.append(split) or read_split(split))
    ingest(lakehouse, EVENTS, runners=runners)
    splits.sort(key=lambda split: split.files[0][0])
    assert [split.threads for split in splits] == threads
