"""State tools that make a generation, on a home in a bucket: without Spark, as on a disk."""

import json

import pytest

from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.state.making.seeding import SeedSource, seed_job
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.local_state import land, live, tables


@pytest.fixture
def lakehouse(bucket):
    return Lakehouse(f"s3a://{bucket}/home")


def test_a_job_goes_on_from_the_state_that_it_was_seeded_with(without_spark, lakehouse, tmp_path, minutes):
    land(lakehouse, ("ann", 1), ("bob", 2))
    run_job(lakehouse, windows(), runners=without_spark)
    seed = {"user": "zoe", "window": "2026-01-01T00:20:00Z", "clicks": 5, "deadline": "2026-01-01T00:30:00Z"}
    (tmp_path / "seed.jsonl").write_text(json.dumps(seed))
    made = seed_job(lakehouse, windows(), SeedSource(str(tmp_path / "seed.jsonl")), yes=True, runners=without_spark)
    assert made.generation == live(lakehouse).name == "generation-0002"
    land(lakehouse, ("zoe", 21), ("dan", 25))
    run_job(lakehouse, windows(), Incremental(advance_to=minutes(90)), runners=without_spark)
    found = tables(lakehouse)["windows"]
    assert ("zoe", minutes(20), 6) in found, found
    assert any(row[0] == "dan" for row in found)
    assert not any(row[0] in ("ann", "bob") for row in found), "the seed stands for what was read before"
