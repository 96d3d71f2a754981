"""Real rides from landing files to summaries, in many orders and splits, against the state machine in plain Python."""

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from itertools import chain

import polars as pl
import pytest

from keyfold.ingestion import ingest
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.building import build_job
from keyfold.keyed.reporting.conservation import check_conservation
from keyfold.keyed.runner import RunOptions, run_job
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import RIDE_POINTS
from tests.spark_jobs.jobs import ride_oracle

# `make test` has these rides without Spark, in both ways to close, in `jobs/test_ride_summaries.py`.
pytestmark = [pytest.mark.long, pytest.mark.slow]

END = datetime(2016, 6, 23, tzinfo=UTC)
ONE_BATCH, SMALL_BATCHES = 128 << 20, 1
COPIES = 700


@pytest.fixture(scope="module")
def real_files(real_data):
    return [gzip.decompress(path.read_bytes()).splitlines() for path in sorted((real_data / "rides").glob("*.gz"))]


@pytest.fixture(scope="module")
def answer(real_files):
    points = [json.loads(line) for line in chain(*real_files)]
    for point in points:
        point["timestamp"] = datetime.fromisoformat(point["timestamp"]).astimezone(UTC)
    return ride_oracle.complete(points, END, timedelta(minutes=30), timedelta(days=1))


@pytest.mark.parametrize(
    ("close", "shuffled", "split"),
    [
        ("fast", False, ONE_BATCH),
        ("fast", True, SMALL_BATCHES),
        ("complete", False, SMALL_BATCHES),
        ("complete", True, ONE_BATCH),
        # Files are up to three quarters of an hour out of order: a run reads them in order of time all the same.
        ("complete", True, SMALL_BATCHES),
    ],
)
def test_real_rides_with_copies_give_the_summaries_of_the_state_machine(
    spark, lakehouse, tmp_path, real_files, answer, close, shuffled, split
):
    chance = random.Random(11)
    files = list(real_files)
    if shuffled:
        chance.shuffle(files)
    # Copies of points, some in their own file, some long after.
    copies = chance.sample(list(chain(*files)), COPIES)
    files[3] = [*files[3], *chance.sample(files[3], 50)]
    land(tmp_path / "landing", [*files, copies], chance)
    landing = tmp_path / "landing"
    ingested = ingest(
        lakehouse, RIDE_POINTS, landing, max_bytes_per_batch=1 if split == SMALL_BATCHES else 2**28, runners=spark
    )
    rows = sum(map(len, real_files))
    assert (ingested.accepted, ingested.duplicates, ingested.quarantined) == (rows, COPIES + 50, 0)

    job = build_job(JOBS["ride_summaries"], {"close": close, "key_groups": 8})
    ran = run_job(
        lakehouse, job, Incremental(advance_to=END), options=RunOptions(max_bytes_per_batch=split), runners=spark
    )
    assert (len(ran.batch_seconds) > 4) == (split == SMALL_BATCHES)
    found = pl.read_delta(str(lakehouse.table("ride_summaries"))).to_dicts()
    assert len(found) == len(answer.summaries) == 498
    for row in found:
        expected = dict(answer.summaries[row["ride_id"], row["start_time"]])
        assert row.pop("distance_in_metres") == pytest.approx(expected.pop("distance_in_metres"), rel=1e-7, abs=1e-3)
        assert row == expected
    balance = check_conservation(lakehouse, job)
    assert (balance.events_read, balance.in_outputs, balance.open_events, balance.late) == (rows, rows, 0, 0)


def land(landing, files, chance):
    """Write the files, some plain and some gzipped."""
    landing.mkdir()
    for number, lines in enumerate(files):
        text = b"\n".join(lines) + b"\n"
        zipped = chance.random() < 0.5
        path = landing / f"{chance.randrange(10**9)}-{number}.ndjson{'.gz' if zipped else ''}"
        path.write_bytes(gzip.compress(text) if zipped else text)
