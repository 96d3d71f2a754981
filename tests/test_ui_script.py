"""`scripts/ui` as it is: two on one home, on one port, killed and told to stop; nothing of them is left."""

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from keyfold.dagster.serving.web_server import token_file
from tests.browser.served_pages import has_loaded
from tests.keyfold.dagster.serving.marked import VARIABLE, kill_all, marked, new_mark, none_is_left
from tests.ports import free_port
from tests.waiting import wait_until

# `make test` starts one `make ui` in `browser/test_each_page.py`, and kills servers in `dagster/serving/test_supervisor.py`.
pytestmark = [pytest.mark.long, pytest.mark.slow]

PROMISE = "However the servers of `make ui` end, no process of theirs is left (rows are processes here)."

SCRIPT = Path(__file__).parents[1] / "scripts" / "ui"
SETTINGS = "telemetry: {enabled: false}\n"
COMES_UP_WITHIN = 240


@pytest.fixture
def marks():
    marks = [new_mark(), new_mark()]
    yield marks
    for mark in marks:
        kill_all(mark)


def start(folder: Path, name: str, mark: str, port: int, **more: Any) -> subprocess.Popen[Any]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD_", "DAGSTER_"))},
        "PORT": str(port),
        "KEYFOLD_HOME": str(folder / "home"),
        "DAGSTER_HOME": str(folder / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "KEYFOLD_SPARK_MASTER": "local[2]",
        VARIABLE: mark,
    }
    with (folder / f"{name}.txt").open("wb") as told:
        return subprocess.Popen(
            [str(SCRIPT)],
            env=environment,
            stdout=told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o022,
            **more,
        )


def test_two_on_one_home_share_it_in_peace_and_neither_leaves_anything(tmp_path, marks, tally):
    fault = tally("two UIs and two daemons on one home, the first is killed")
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text(SETTINGS)
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    tokens = [token_file(tmp_path / "dagster", port) for port in ports]
    told = {name: tmp_path / f"{name}.txt" for name in ("first", "second", "third")}

    first = start(tmp_path, "first", marks[0], ports[0])
    wait_until(lambda: has_loaded(urls[0], tokens[0]), told["first"].read_text)
    # The third comes to a port that is taken.
    third = start(tmp_path, "third", marks[1], ports[0])
    assert third.wait(timeout=60) == 1
    assert f"port {ports[0]} of 127.0.0.1 cannot be used" in told["third"].read_text()
    assert "Traceback" not in told["third"].read_text()

    # The second is what a script starts in the background: interrupts are ignored.
    second = start(
        tmp_path,
        "second",
        marks[1],
        ports[1],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    wait_until(
        lambda: "already running" in told["second"].read_text(),
        told["second"].read_text,
    )
    wait_until(lambda: has_loaded(urls[1], tokens[1]), told["second"].read_text)
    assert "following daemons" in told["first"].read_text()
    assert "following daemons" not in told["second"].read_text()
    there = " ".join(marked(marks[0]).values())
    assert all(part in there for part in ("serving.web_server", "_daemon", "code-server", "api grpc"))

    first.kill()
    first.wait(timeout=10)
    assert none_is_left(marks[0], 20), marked(marks[0])
    wait_until(
        lambda: "following daemons" in told["second"].read_text(),
        told["second"].read_text,
    )
    assert has_loaded(urls[1], tokens[1])

    second.terminate()
    assert second.wait(timeout=20) == 0
    assert not tokens[1].exists()
    none_is_left(marks[1], 1)
    fault.count(Counter(), Counter([*marked(marks[0]).values(), *marked(marks[1]).values()]))
    assert (tmp_path / "dagster" / "dagster.yaml").read_text() == SETTINGS
    written = [path for folder in ("home", "dagster") for path in (tmp_path / folder).rglob("*")]
    assert [path for path in written if path.stat().st_mode & 0o077 and path.name != "dagster.yaml"] == []
    assert any(path.name == "runs.db" for path in written)
    assert "is not changed" in told["first"].read_text()
