"""A warm Spark: runs attach to it, two at a time, work as on their own, and leave it as it was."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.simulation import simulate

pytestmark = pytest.mark.long

RUN = textwrap.dedent("""
    import json, sys
    from pathlib import Path
    from spark_jobs.ingest import ingest
    from spark_jobs.jobs.parameters import build_job
    from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
    from spark_jobs.keyed.conservation import check_conservation
    from spark_jobs.keyed.runner import run_job
    from spark_jobs.lakehouse import Lakehouse
    from spark_jobs.session import SparkSettings
    from spark_jobs.streams import RIDE_POINTS
    from spark_jobs.session.warm.client import attach

    address, home, shuffle_partitions = sys.argv[1:]
    settings = SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": shuffle_partitions})
    attached = attach(Path(address), settings)
    if attached is None:
        print(json.dumps(None))
        sys.exit()
    lakehouse, job = Lakehouse(Path(home)), build_job(RIDE_SUMMARIES)
    ingest(attached.session, lakehouse, RIDE_POINTS)
    summary = run_job(attached.session, lakehouse, job)
    balanced = check_conservation(attached.session, lakehouse, job).balanced
    application = attached.session.sparkContext.applicationId
    attached.detach()
    print(json.dumps({"events": summary.counts.events, "balanced": balanced, "application": application}))
""")


def start(address: Path, home: Path, *, shuffle_partitions: int = 2) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(address), str(home), str(shuffle_partitions)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(run: subprocess.Popen[str]) -> dict:
    out, errors = run.communicate(timeout=180)
    assert run.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[Path]:
    file = tmp_path_factory.mktemp("warm") / "warm-spark.json"
    server = subprocess.Popen(
        [Path(sys.executable).with_name("keyfold"), "warm-spark", "--address", str(file), "--json"],
        env={
            **os.environ,
            "KEYFOLD_SPARK_MASTER": "local[2]",
            "KEYFOLD_SPARK_CONF": "spark.sql.shuffle.partitions=2",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        assert json.loads(server.stdout.readline()) == {"address": str(file)}
        yield file
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0
    assert not file.exists()


def landed(home: Path, seed: int) -> int:
    return simulate("ride_points", home / "landing" / "ride_points", size=20, seed=seed, files=4).events


def test_the_secret_is_its_owner_s_alone(address):
    assert stat.S_IMODE(address.stat().st_mode) == 0o600


def test_two_runs_share_one_spark_and_each_gets_its_own_answer(address, tmp_path):
    events = [landed(tmp_path / name, seed) for seed, name in enumerate(("one", "two"))]
    runs = [start(address, tmp_path / name) for name in ("one", "two")]
    found = [outcome(run) for run in runs]
    assert [run["events"] for run in found] == events
    assert all(run["balanced"] for run in found)
    assert found[0]["application"] == found[1]["application"]


def test_a_killed_run_leaves_spark_to_the_next_which_goes_on(address, tmp_path):
    events = landed(tmp_path, 3)
    killed = start(address, tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        killed.wait(timeout=2)
    killed.kill()
    killed.wait()
    found = outcome(start(address, tmp_path))
    assert found["balanced"]
    assert found["events"] <= events


def test_a_run_with_other_settings_is_told_which(address, tmp_path):
    run = start(address, tmp_path, shuffle_partitions=7)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "spark.sql.shuffle.partitions" in errors
    assert "7 is wanted" in errors


def test_where_nothing_serves_there_is_nothing_to_attach_to(tmp_path):
    assert outcome(start(tmp_path / "nowhere.json", tmp_path)) is None
    gone = tmp_path / "gone.json"
    gone.write_text(json.dumps({"pid": 2**22 + 1, "port": 1, "secret": "x"}))
    assert outcome(start(gone, tmp_path)) is None
