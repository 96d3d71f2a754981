"""Files that may do harm, in whole runs: links out of the landing folder, and a file of few bytes that unpacks to much."""

import gzip
import os
from pathlib import Path

import pytest

from keyfold.ingestion import ingest
from keyfold.lakehouse import Lakehouse, fail_points
from spark_jobs.streams import METRICS
from tests.keyfold.ingestion.test_admission import metric, put, quarantine, values
from tests.keyfold.ingestion.test_batch import changed, crash_at, no_spark
from tests.keyfold.ingestion.test_run import Crash


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    return tmp_path / "landing"


def test_links_out_of_the_landing_folder_are_quarantined_and_nothing_of_them_is_read(
    lakehouse: Lakehouse, landing: Path
):
    put(landing.parent / "elsewhere" / "secret.json", metric(7))
    (landing / "file.json").symlink_to(landing.parent / "elsewhere" / "secret.json")
    (landing / "folder").symlink_to(landing.parent / "elsewhere")
    os.mkfifo(landing / "pipe.json")
    put(landing / "cpu.json", metric(1))
    summary = ingest(no_spark(1), lakehouse, METRICS, landing)
    assert (summary.files, summary.accepted, summary.quarantined) == (3, 1, 2)
    found = {Path(row["file"]).name: row["reason"] for row in quarantine(lakehouse)}
    assert found.keys() == {"file.json", "folder"}
    assert all(reason.startswith("the link leads out of the landing folder") for reason in found.values())
    assert values(lakehouse) == [("cpu", 1)]
    assert ingest(no_spark(1), lakehouse, METRICS, landing).files == 0


def test_a_file_in_whose_place_a_link_leads_out_once_it_is_planned_is_quarantined(lakehouse: Lakehouse, landing: Path):
    path = put(landing / "cpu.json", metric(1))
    with changed(fail_points, act=crash_at("plan: after", 1)), pytest.raises(Crash):
        ingest(no_spark(1), lakehouse, METRICS, landing)
    # With the content that was planned: else it would be a file that has changed, and wait.
    path.rename(landing.parent / "elsewhere.json")
    path.symlink_to(landing.parent / "elsewhere.json")
    summary = ingest(no_spark(1), lakehouse, METRICS, landing)
    assert (summary.accepted, summary.quarantined) == (0, 1)
    (reject,) = quarantine(lakehouse)
    assert reject["reason"].startswith("the link leads out of the landing folder")


def test_a_bomb_of_200_mib_in_200_kb_costs_its_own_file_alone(lakehouse: Lakehouse, landing: Path):
    with gzip.open(landing / "bomb.ndjson.gz", "wb") as file:
        for _ in range(200):
            file.write(b"a" * (1 << 20))
    assert (landing / "bomb.ndjson.gz").stat().st_size < 300_000
    put(landing / "cpu.json", metric(1))
    summary = ingest(no_spark(1), lakehouse, METRICS, landing)
    assert (summary.files, summary.accepted, summary.quarantined) == (2, 1, 1)
    (reject,) = quarantine(lakehouse)
    assert (reject["reason"], reject["raw"]) == ("the file has a line of more than 16 MiB, which is its limit", None)
