"""A continuous run as a process of its own: it answers what lands, and ends well when told."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from keyfold.lakehouse import Lakehouse
from tests.keyfold.state.job_histories import History, put

_PATIENCE = 180


@pytest.fixture
def keyfold(tmp_path):
    """Start a command; what still runs at the end is killed."""
    started = []

    def keyfold(*command):
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "keyfold"), *command, "--home", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "KEYFOLD_SPARK_MASTER": "local[1]"},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield keyfold
    for process in started:
        process.kill()
        process.communicate()


def wait_for(is_so, process):
    end = time.monotonic() + _PATIENCE
    while not is_so():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


def test_a_process_predicts_what_lands_and_on_sigterm_ends_after_its_batch_with_a_summary(tmp_path, keyfold):
    lakehouse, parts = Lakehouse(tmp_path), History("anomaly_predictions").parts()
    put(lakehouse, "metrics", parts[0])
    parameters = ("order=arrival", "emit=all", "model=ewma", "key_groups=2", "delay=0s")
    given = [text for one in parameters for text in ("--param", one)]
    running = keyfold("run", "anomaly_predictions", "--continuous", "--json", *given)

    def predicted():
        table = lakehouse.tables().get("anomaly_predictions")
        return table is not None and pl.read_delta(str(table)).height

    wait_for(lambda: predicted() == parts[0].height, running)
    put(lakehouse, "metrics", parts[1])
    wait_for(lambda: predicted() == parts[0].height + parts[1].height, running)
    # All of its group, as a shell's job and `timeout` are told: Java must not end before the batch does.
    os.killpg(running.pid, signal.SIGTERM)
    told, errors = running.communicate(timeout=_PATIENCE)
    assert running.returncode == 0, errors
    summary = json.loads(told)
    assert summary["events"] == summary["rows"]["anomaly_predictions"] == parts[0].height + parts[1].height
    assert summary["batches"] == 2
    assert "Traceback" not in errors
