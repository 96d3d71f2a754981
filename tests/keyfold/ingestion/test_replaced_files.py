"""Whatever takes the place of a landing file once it is planned: the run goes on, other files are read, and nobody waits."""

import gzip
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keyfold.ingestion import ingest
from keyfold.lakehouse import Lakehouse, fail_points
from spark_jobs.streams import METRICS
from tests.entries import SECRET
from tests.keyfold.ingestion.test_admission import metric, put, quarantine
from tests.keyfold.ingestion.test_batch import changed, crash_at, no_spark
from tests.keyfold.ingestion.test_hostile_files import parquet
from tests.keyfold.ingestion.test_run import Crash, rows

CONTENTS = {
    "json": metric(1).encode() + b"\n",
    "json.gz": gzip.compress(metric(1).encode() + b"\n"),
    "csv": b"key,timestamp,value\nx,2026-01-01T00:00:00Z,1\n",
    "parquet": parquet(),
}

Replace = Callable[[Path, Path], object]

REPLACED: dict[str, tuple[Replace, int, int]] = {
    # What is done, and how many entries of the quarantine and files that wait come of it. The same run lists the folder once the plan
    # is done, and finds what lies there now.
    "it is gone": (lambda path, _: None, 0, 1),
    "a pipe": (lambda path, _: os.mkfifo(path), 0, 1),
    "a device": (lambda path, _: os.mknod(path, 0o20666, os.makedev(1, 5)), 0, 1),
    "a folder": (lambda path, _: path.mkdir(), 0, 1),
    "a link out": (lambda path, outside: path.symlink_to(outside), 1, 0),
    "a link to nowhere": (lambda path, _: path.symlink_to("nowhere"), 1, 1),
    "a link to itself": (lambda path, _: path.symlink_to(path.name), 1, 0),
    "a link with a target of 256 letters": (lambda path, _: path.symlink_to("x" * 256), 1, 0),
}


@contextmanager
def within_seconds(seconds: int) -> Iterator[None]:
    def late(*_):
        raise AssertionError(f"it has not ended within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("form", CONTENTS)
@pytest.mark.parametrize("kind", REPLACED)
def test_what_has_taken_the_place_of_a_planned_file_costs_itself_alone(
    lakehouse: Lakehouse, tmp_path: Path, form: str, kind: str
):
    replace, quarantined, waiting = REPLACED[kind]
    landing = tmp_path / "landing"
    landing.mkdir()
    path = landing / f"cpu.{form}"
    path.write_bytes(CONTENTS[form])
    put(landing / "other.json", metric(2))
    (tmp_path / "outside").write_text(SECRET)
    with changed(fail_points, act=crash_at("plan: after", 1)), pytest.raises(Crash):
        ingest(lakehouse, METRICS, landing, runners=no_spark(1))
    path.unlink()
    replace(path, tmp_path / "outside")
    with within_seconds(60):
        summary = ingest(lakehouse, METRICS, landing, runners=no_spark(1))
    assert (summary.quarantined, summary.waiting) == (quarantined, waiting)
    assert [row[2] for row in rows(lakehouse.events("metrics"))] == [2.0]
    assert SECRET not in str(quarantine(lakehouse))
    assert {Path(row["file"]).name for row in quarantine(lakehouse)} <= {path.name}
