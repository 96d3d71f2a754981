"""Copies of events in whole runs: the first one of all stands, in a file, across files and across runs."""

from datetime import timedelta
from pathlib import Path

import pytest

from keyfold.ingestion import ingest
from keyfold.lakehouse import Lakehouse
from tests.keyfold.ingestion.test_batch import no_spark
from tests.keyfold.ingestion.test_run import EVENTS, START, check_counts, event, land, tables


def test_copies_are_dropped_in_a_file_across_files_and_across_runs(tmp_path: Path):
    lakehouse, landing = Lakehouse(tmp_path / "home"), tmp_path / "landing"
    land(landing / "b.json", [event("u", 1, note="later file"), event("w", None)])
    # On a later line than its copy of the other file has: files come first, then lines.
    land(landing / "a.json", [event("v", 1), event("u", 1, note="kept"), event("u", 1, 1), event("w", None)])
    summary = ingest(no_spark(1), lakehouse, EVENTS, landing)
    check_counts(lakehouse, summary)
    assert (summary.accepted, summary.duplicates) == (3, 3)
    assert ("u", 1, START, "kept") in tables(lakehouse)[0]
    land(landing / "c.json", [event("u", 1, -24), event("x", 1), event("w", None, 24)], "rubbish")
    summary = ingest(no_spark(1), lakehouse, EVENTS, landing)
    check_counts(lakehouse, summary)
    assert (summary.rows_read, summary.accepted, summary.duplicates, summary.quarantined) == (4, 1, 2, 1)


@pytest.mark.parametrize("files_a_batch", [8, 1])
def test_copies_beyond_the_window_are_kept_however_the_files_are_cut_into_batches(tmp_path: Path, files_a_batch: int):
    lakehouse, landing = Lakehouse(tmp_path / "home"), tmp_path / "landing"
    hours = [0, 20, 25, 45, -24, -24.1, 50, 0]
    kept: list[float] = []
    for index, hour in enumerate(hours):
        land(landing / f"{index}.json", [event("u", 1, hour)])
        if all(abs(hour - other) > 24 for other in kept):
            kept.append(hour)
    summary = ingest(no_spark(1), lakehouse, EVENTS, landing, max_bytes_per_batch=1 << 20 if files_a_batch > 1 else 1)
    check_counts(lakehouse, summary)
    assert summary.batches == len(hours) / files_a_batch
    assert [at for _, _, at, _ in tables(lakehouse)[0]] == sorted(
        (START + timedelta(hours=hour) for hour in kept), key=repr
    )
