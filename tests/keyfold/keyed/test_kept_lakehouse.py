"""A lakehouse that an earlier version of this form made: this one reads it, and goes on from it, on Spark."""

import tarfile
from collections import Counter
from datetime import timedelta

import polars as pl
import pytest

from keyfold.keyed.generation.generation_record import FORMAT
from keyfold.keyed.job_run import run_job
from keyfold.keyed.state_parts.folding import Layers
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_rows import ADDS, GONE, MARK, REPLACES
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.reader import read_state
from tests.keyfold.keyed.contract_oracles import Notes
from tests.keyfold.keyed.kept_lakehouse import KEPT, MORE, NOTES, RUNS, WINDOWS
from tests.keyfold.state.local_state import manifests_after
from tests.lake import Lake, minutes
from tests.shop import START

pytestmark = pytest.mark.one_machine


@pytest.fixture(params=KEPT, ids=lambda path: path.name)
def kept(request, tmp_path):
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return Lakehouse(tmp_path / "lakehouse")


def watermarks(runs):
    newest = START
    for rows in runs:
        newest = max(newest, *(minutes(at) for _, at in rows))
        yield newest - timedelta(minutes=5)


def expected_notes(runs):
    """The rows of each user after all runs, by plain Python."""
    notes = Notes()
    for rows, watermark in zip(runs, watermarks(runs), strict=True):
        notes.take([(user, minutes(at)) for user, at in rows], None, watermark)
    return {user: sorted(rows, key=str) for user, rows in notes.state.items()}


def expected_windows(runs):
    """The clicks of each user and ten minutes that are open after all runs, and those that are over."""
    still_open, over = Counter(), Counter()
    for rows, watermark in zip(runs, watermarks(runs), strict=True):
        for user, at in rows:
            still_open[user, minutes(at // 10 * 10)] += 1
        for key in [key for key in still_open if key[1] + timedelta(minutes=10) <= watermark]:
            over[key] += still_open.pop(key)
    return dict(still_open), dict(over)


def assert_agree(spark, lakehouse, runs):
    rows = read_state(lakehouse, NOTES).polars().select("user", "at", "deadline")
    found = {}
    for user, *row in rows.iter_rows():
        found.setdefault(user, []).append(tuple(row))
    assert {user: sorted(rows, key=str) for user, rows in found.items()} == expected_notes(runs)
    still_open, over = expected_windows(runs)
    state = read_state(lakehouse, WINDOWS).polars()
    assert {(user, window): count for user, window, count, _ in state.iter_rows()} == still_open
    generation = Lake(lakehouse).live("windows")
    written = pl.read_delta(str(generation.table("windows"))).select("user", "window", "clicks")
    assert {(user, window): count for user, window, count in written.iter_rows()} == over


def test_there_is_one_of_the_present_form():
    assert f"lakehouse_of_form_{FORMAT}.tar.xz" in [path.name for path in KEPT]


def test_its_state_is_read_and_its_jobs_go_on(spark, kept):
    assert_agree(spark, kept, RUNS)
    Lake(kept).click(*MORE)
    for job in (WINDOWS, NOTES):
        assert run_job(kept, job, runners=spark).counts.events == len(MORE)
        # The kept one has its tables in the generation's folder.
        assert Lake(kept).live(job.name).table(job.name) == kept.live_table(job.name)
    assert_agree(spark, kept, (*RUNS, MORE))


def test_it_has_parts_of_every_kind(kept):
    generation = Lake(kept).live("notes")
    manifest = Manifest.unpack(manifests_after(generation, len(RUNS) - 1).popitem()[1])
    assert len(manifest.base) > 1
    assert all(part.file for part in manifest.parts)
    changes = Layers(manifest, generation.parts).changes
    assert {mark for one in changes for mark in one.between(0, 1 << 63)[MARK]} == {REPLACES, ADDS, GONE}
