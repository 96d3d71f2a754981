"""Files that may do harm, in whole runs: links out of the landing folder, and a file of few bytes that unpacks to much."""

from pathlib import Path

import pytest

from keyfold.ingestion import ingest
from keyfold.lakehouse import Lakehouse, fail_points
from spark_jobs.streams import METRICS
from tests.keyfold.ingestion.test_admission import metric, put, quarantine
from tests.keyfold.ingestion.test_batch import changed, crash_at, no_spark
from tests.keyfold.ingestion.test_run import Crash


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    return tmp_path / "landing"


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
