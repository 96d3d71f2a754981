"""The alerts' process beside Dagster's real daemon: what fails, and the daemon's own death, is reported once and when it is over."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time

from keyfold.dagster.alerts.state import State
from tests.keyfold.dagster.alerts.scripted_webhook import ScriptedWebhook
from tests.waiting import wait_until

ROOT = Path(__file__).parents[4]
MODULE = "tests.keyfold.dagster.alerts.watched_project"
SETTINGS = """
telemetry: {enabled: false}
run_coordinator: {module: dagster, class: QueuedRunCoordinator, config: {dequeue_interval_seconds: 1}}
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path, webhook) -> Iterator[Start]:
    started = list[subprocess.Popen[bytes]]()

    def start(what: str, *more: str) -> "subprocess.Popen[bytes]":
        environment = {
            **os.environ,
            "DAGSTER_HOME": str(tmp_path),
            "KEYFOLD_ALERT_WEBHOOK": webhook.url,
            "KEYFOLD_ALERT_DISK_PERCENT": "0.0001",
        }
        with (tmp_path / f"{what}.log").open("ab") as log:
            command = [sys.executable, "-m", MODULE, what, MODULE, *more]
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        started.append(process)
        return process

    yield start
    for process in started:
        end(process)


@pytest.fixture
def webhook() -> Iterator[ScriptedWebhook]:
    webhook = ScriptedWebhook()
    yield webhook
    webhook.close()


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and what it has started, as a machine that goes down does."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(webhook: ScriptedWebhook, state: str, names: set[str], logs: Path) -> None:
    late = time.monotonic() + 120
    while not names <= {one["condition"] for got in webhook.got for one in got[state]}:
        assert time.monotonic() < late, (webhook.got, (logs / "alerts.log").read_text()[-3000:])
        time.sleep(0.1)


@pytest.mark.long
def test_what_stops_is_reported_once_with_its_remedy_and_once_more_when_it_is_over(tmp_path, webhook, start):
    (tmp_path / "dagster.yaml").write_text(SETTINGS)
    (tmp_path / "faulty").touch()
    with (
        dg.DagsterInstance.from_config(str(tmp_path)) as instance,
        freeze_time(datetime.now(UTC) - timedelta(hours=2)),
    ):
        instance.report_runless_asset_event(dg.AssetMaterialization("totals"))
    alerts, daemon = start("alerts", "600"), start("daemon")
    faults = {"job rides", "sensor ticks", "freshness of totals"}
    wait_for(webhook, "raised", faults, tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        # A process that is killed before it has saved that an alert was taken sends it again.
        wait_until(lambda: not any(queue.waiting for queue in State.load(instance).queues.values()))
    end(daemon)
    end(alerts)  # what is raised survives it
    (tmp_path / "faulty").unlink()
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("totals"))
    start("alerts", "10")
    wait_for(webhook, "raised", {"daemon"}, tmp_path)
    start("daemon")
    wait_for(webhook, "cleared", {*faults, "daemon"}, tmp_path)
    entries = [one for got in webhook.got for state in ("raised", "cleared") for one in got[state]]
    reported = [(one["condition"], one["state"]) for one in entries if one["condition"] in faults]
    assert sorted(reported) == sorted((name, state) for name in faults for state in ("raised", "cleared"))
    assert all(one["remedy"] for one in entries)
    assert "SECRET" not in str(webhook.got)
