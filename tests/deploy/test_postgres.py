"""Dagster on a Postgres server, by the settings in `deploy/`: two runs of the demo's definitions at once, each pool by itself."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from spark_jobs.simulation import simulate
from tests.ports import free_port, wait_for_port
from tests.served_dagster import ServedDagster, served_dagster
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
FOUND = subprocess.run([str(ROOT / "scripts" / "postgres"), "find"], capture_output=True, text=True, check=False)
PROGRAMS = Path(FOUND.stdout.strip())
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        FOUND.returncode != 0, reason="no Postgres that runs: `make postgres-for-tests` unpacks Debian's"
    ),
]

LAUNCH = """mutation {{ launchRun(executionParams: {{ mode: "default", selector: {{ repositoryLocationName: "keyfold",
repositoryName: "__repository__", jobName: "__ASSET_JOB", assetSelection: [{}] }} }})
{{ __typename ... on LaunchRunSuccess {{ run {{ runId }} }} ... on PythonError {{ message }} }} }}"""


@pytest.fixture
def database() -> Iterator[dict[str, str]]:
    """The variables of `deploy/postgres.yaml` for a server of its own, which is empty."""
    # Postgres refuses to be root, and another user could not enter pytest's folders.
    who = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    folder, port = Path(tempfile.mkdtemp(prefix="keyfold-postgres-")), free_port()
    (folder / "password").write_text("planted")
    if who:
        for path in (folder, folder / "password"):
            shutil.chown(path, who["user"])
    libraries = ":".join(map(str, PROGRAMS.parents[2].glob("*-linux-gnu")))
    how: dict[str, Any] = {**who, "env": {**os.environ, "LD_LIBRARY_PATH": libraries}, "cwd": folder}
    data, log = folder / "data", folder / "log"
    made = ["-D", data, "-U", "keyfold", "-A", "scram-sha-256", "--pwfile", folder / "password", "--no-sync"]
    subprocess.run([PROGRAMS / "initdb", *made], **how, check=True, capture_output=True)
    with log.open("wb") as out:
        settings = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-p", str(port), "-k", folder]
        server: Any = subprocess.Popen([PROGRAMS / "postgres", "-D", data, *settings], **how, stdout=out, stderr=out)
    try:
        wait_for_port(port, server, log, 60)
        yield {
            "POSTGRES_HOST": "127.0.0.1",
            "POSTGRES_USER": "keyfold",
            "POSTGRES_PASSWORD": "planted",
            "POSTGRES_DB": "postgres",
            "POSTGRES_PORT": str(port),
        }
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder)


def launch(served: ServedDagster, *assets: str) -> str:
    answer = served.ask(LAUNCH.format(", ".join(f'{{path: ["{asset}"]}}' for asset in assets)))["launchRun"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    return answer["run"]["runId"]


def test_two_runs_go_on_at_once_on_postgres_and_two_of_one_stream_one_after_the_other(tmp_path, database, monkeypatch):
    for stream in ("weather", "metrics"):
        simulate(stream, tmp_path / "home" / "landing" / stream, size=3, seed=1)
    home = tmp_path / "dagster"
    home.mkdir()
    settings = [ROOT / "keyfold" / "dagster" / "dagster.yaml", ROOT / "deploy" / "postgres.yaml"]
    written = "".join(path.read_text() for path in settings)
    (home / "dagster.yaml").write_text(written.replace("port: 5432", f"port: {database['POSTGRES_PORT']}"))
    for name, value in database.items():
        monkeypatch.setenv(name, value)
    environment = {**database, "KEYFOLD_RUNNER": "local"}
    with (
        served_dagster(tmp_path, ROOT, environment) as served,
        dg.DagsterInstance.from_config(str(home)) as instance,
    ):
        for pool in ("stream_weather", "stream_metrics"):
            instance.event_log_storage.initialize_concurrency_limit_to_default(pool)
        weather, metrics, again = (launch(served, f"{stream}_events") for stream in ("weather", "metrics", "weather"))
        runs = (weather, metrics, again)
        wait_until(lambda: all(instance.get_runs(dg.RunsFilter([one]))[0].is_finished for one in runs), served.told)
        spans = {}
        for one in runs:
            stats: Any = instance.get_run_stats(one)
            assert (stats.steps_failed, stats.launch_time is None, stats.end_time is None) == (0, False, False), (
                served.told()
            )
            spans[one] = (stats.launch_time, stats.end_time)
        # Each began before the other ended; and the second of the stream after the first.
        assert max(spans[one][0] for one in (weather, metrics)) < min(spans[one][1] for one in (weather, metrics))
        assert spans[again][0] >= spans[weather][1]
        assert instance.get_latest_materialization_event(dg.AssetKey("weather_events")) is not None
    for stream in ("weather", "metrics"):
        assert pl.read_delta(str(tmp_path / "home" / "events" / stream)).height > 0
    assert "planted" not in served.told()
    assert list(home.rglob("*.db")) == []
