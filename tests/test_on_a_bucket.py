"""A home in a bucket, of S3 with a real Spark, of other providers without: from landed files to ride summaries, run by run, against plain Python."""

import json
import sys
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import data_file_paths, scan_table
from keyfold.storage.object_path import ObjectPath
from spark_jobs.simulation import simulate
from tests.commands import ended_well
from tests.spark_jobs.jobs import ride_oracle

END = datetime(2026, 12, 31, tzinfo=UTC)
TIMEOUT, CLOSED_FOR = timedelta(minutes=30), timedelta(days=1)

# In a process of its own: Java takes its packages, and its way to the store, when it starts.
RUNS = """
import json, sys
from datetime import datetime
from keyfold.ingestion import ingest
from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from keyfold.keyed.reporting.conservation import check_conservation
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.maintenance.checking import check
from keyfold.storage.place import to_place
from keyfold.runners import Runners
from keyfold.session import SparkSettings, build_session
from spark_jobs.streams import RIDE_POINTS

runner, home, end, *folders = sys.argv[1:]
lakehouse = Lakehouse(home)
job = build_job(RIDE_SUMMARIES, {"close": "complete", "watermark_delay": "30d"})
settings = SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
session = build_session(settings) if runner == "spark" else None
runners = Runners(runner, session)
told = []

def break_off(point):
    if point == "work: after":
        raise KeyfoldError("broken off in the first batch")

for at, folder in enumerate(folders):
    ingest(lakehouse, RIDE_POINTS, to_place(folder), runners=runners)
    is_last = at + 1 == len(folders)
    if at == 0:
        fail_points.act = break_off
        try:
            run_job(lakehouse, job, runners=runners)
        except KeyfoldError as error:
            assert "broken off" in str(error), error
        else:
            raise AssertionError("it did not break off")
        fail_points.act = lambda point: None
    run_job(lakehouse, job, Incremental(advance_to=datetime.fromisoformat(end) if is_last else None), runners=runners)
    found = check_conservation(lakehouse, job)
    told.append([found.events_read, found.in_outputs, found.open_events, found.late])
checked = check(lakehouse)
assert not checked.findings and checked.files, list(checked.describe())
if session:
    session.stop()
print(json.dumps(told))
"""


@pytest.mark.long
@pytest.mark.one_machine
# Without Spark `tests/chaos/test_object_store_backups.py` backs homes up and restores them, in buckets and on disks.
def test_rides_of_a_bucket_are_summarised_run_by_run_and_every_point_is_accounted_for(tmp_path, bucket_url):
    runner = "spark" if bucket_url.startswith("s3a") else "local"
    check_rides(ObjectPath(f"{bucket_url}/lake/home"), tmp_path, runner)


def check_rides(home, tmp_path, runner):
    """Have rides of two landing folders summarised in a home, and see that all is as plain Python and another engine tell."""
    simulate("ride_points", tmp_path / "files", size=20, seed=3, files=6)
    files = sorted((tmp_path / "files").iterdir())
    folders = [home.parent / "first", home.parent / "second"]
    for at, file in enumerate(files):
        (folders[at % 2] / file.name).write_bytes(file.read_bytes())
    command = [sys.executable, "-c", RUNS, runner, str(home), END.isoformat(), *map(str, folders)]
    done = ended_well(*command, folder=tmp_path)
    first, second = json.loads(done.stdout.splitlines()[-1])
    house = Lakehouse(home)
    points = scan_table(house.events("ride_points")).collect()
    # Counted by another engine, from the files themselves.
    contents = [path.read_bytes() for path in data_file_paths(house.events("ride_points"))]
    for at, content in enumerate(contents):
        (tmp_path / f"{at}.parquet").write_bytes(content)
    counted = duckdb.connect().execute("SELECT count(*) FROM read_parquet($1)", [f"{tmp_path}/*.parquet"]).fetchone()
    assert counted == (points.height,)
    assert first[0] == sum(first[1:]) > 0
    assert second[0] == sum(second[1:]) == points.height > first[0]
    answer = ride_oracle.complete(points.to_dicts(), END, TIMEOUT, CLOSED_FOR)
    summaries = scan_table(house.table("ride_summaries")).collect().to_dicts()
    assert len(summaries) == len(answer.summaries) > 0
    for row in summaries:
        expected = answer.summaries[row["ride_id"], row["start_time"]]
        assert row.pop("distance_in_metres") == pytest.approx(expected.pop("distance_in_metres"), rel=1e-7, abs=1e-3)
        assert row == expected
