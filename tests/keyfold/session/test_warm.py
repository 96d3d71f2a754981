"""A warm Spark: runs attach to it, two at a time, work as on their own, and leave it as it was."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from keyfold.session.warm.server import serve
from spark_jobs.simulation import simulate
from tests.waiting import wait_until

pytestmark = pytest.mark.long

RUN = textwrap.dedent("""
    import json, sys
    from pathlib import Path
    from keyfold.ingestion import ingest
    from keyfold.keyed.job.parameters import build_job
    from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
    from keyfold.keyed.runner import run_job
    from keyfold.lakehouse import Lakehouse
    from keyfold.session import SparkSettings
    from spark_jobs.streams import RIDE_POINTS
    from keyfold.session.warm.client import attach

    address, home = sys.argv[1:]
    settings = SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    attached = attach(Path(address), settings)
    lakehouse, job = Lakehouse(Path(home)), build_job(RIDE_SUMMARIES)
    ingest(attached.session, lakehouse, RIDE_POINTS)
    summary = run_job(attached.session, lakehouse, job)
    application = attached.session.sparkContext.applicationId
    attached.detach()
    print(json.dumps({"events": summary.totals.events, "application": application}))
""")


def start(address: Path, home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(address), str(home)]
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


def test_two_runs_share_one_spark_and_one_that_is_killed_leaves_it_to_the_other_and_to_the_next(address, tmp_path):
    names = ("one", "two")
    events = [landed(tmp_path / name, seed) for seed, name in enumerate(names)]
    runs = [start(address, tmp_path / name) for name in names]
    # In the midst of its work.
    wait_until((tmp_path / "two" / "ingest").exists)
    runs[1].kill()
    runs[1].wait()
    found = [outcome(runs[0]), outcome(start(address, tmp_path / "two"))]
    assert [run["events"] for run in found] == events
    assert found[0]["application"] == found[1]["application"]


SERVE = textwrap.dedent("""
    import signal, sys, threading
    from pathlib import Path
    from keyfold.errors import KeyfoldError
    from keyfold.session import SparkSettings
    from keyfold.session.warm.server import serve

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = SparkSettings(master="local[1]", conf={"spark.sql.shuffle.partitions": "2"})
    try:
        serve(settings, Path(sys.argv[1]), warm_up=lambda _: None, ready=lambda: print("ready", flush=True), stop=stop)
    except KeyfoldError as error:
        sys.exit(f"told: {error}")
""")

ATTACH = textwrap.dedent("""
    import json, os, sys
    from pathlib import Path
    from pyspark import SparkContext
    from keyfold.errors import KeyfoldError
    from keyfold.session import SparkSettings
    from keyfold.session.warm.client import attach

    settings = SparkSettings(master="local[1]", conf={"spark.sql.shuffle.partitions": sys.argv[2]})
    told = ""
    try:
        attached = attach(Path(sys.argv[1]), settings)
        assert attached.session.range(3).count() == 3
        attached.detach()
    except KeyfoldError as error:
        told = str(error)
    left = [name for name in os.environ if name.startswith("PYSPARK_GATEWAY")]
    clean = not left and SparkContext._gateway is None and SparkContext._active_spark_context is None
    print(json.dumps({"told": told, "clean": clean}))
""")


def try_to_attach(address: Path, shuffle_partitions: int = 2) -> str:
    """What an attempt is told, empty where it succeeded; either way it ends soon and leaves nothing behind."""
    command = [sys.executable, "-c", ATTACH, str(address), str(shuffle_partitions)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["clean"]
    return found["told"]


def java_of(server: subprocess.Popen[str]) -> int:
    children = subprocess.run(["pgrep", "-P", str(server.pid), "java"], capture_output=True, text=True, check=True)
    return int(children.stdout.split()[0])


def test_a_warm_spark_that_hangs_or_dies_is_told_in_seconds_and_leaves_the_run_free_to_start_its_own(tmp_path):
    address = tmp_path / "warm-spark.json"
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(address)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            assert '"spark.sql.shuffle.partitions": "2 is running, 7 is requested"' in try_to_attach(address, 7)

            second = subprocess.run(
                [sys.executable, "-c", SERVE, str(address)], capture_output=True, text=True, check=False, timeout=60
            )
            assert "belongs to a warm Spark that is running" in second.stderr

            java = java_of(server)
            os.kill(java, signal.SIGSTOP)
            assert "does not answer within 3 s" in try_to_attach(address)
            os.kill(java, signal.SIGCONT)
            assert try_to_attach(address) == ""

            os.kill(java, signal.SIGKILL)
            _, errors = server.communicate(timeout=60)
            assert "told: the warm Spark's Java process has ended" in errors
        finally:
            server.kill()
    assert "no warm Spark serves" in try_to_attach(address)


def test_on_a_cluster_there_is_no_warm_spark(tmp_path):
    settings = SparkSettings(master="spark://127.0.0.1:7077")
    with pytest.raises(
        KeyfoldError, match=r"a warm Spark runs on one machine, but the master is spark://127\.0\.0\.1:7077"
    ):
        serve(settings, tmp_path / "address", warm_up=print, ready=print, stop=threading.Event())
    assert not any(tmp_path.iterdir())
