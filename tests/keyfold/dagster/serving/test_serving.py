"""The command of `make ui`: what it serves of a small project, and that however it ends, its processes end too."""

import json
import os
import pty
import re
import signal
from collections import Counter
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from keyfold.dagster.serving import __main__ as command
from keyfold.errors import Misconfigured
from tests.keyfold.dagster.serving.marked import VARIABLE, kill_all, marked, new_mark, none_is_left
from tests.served_dagster import ServedDagster, has_loaded, start_dagster
from tests.waiting import wait_until

pytestmark = pytest.mark.long

PROMISE = "However the servers of `make ui` end, no process of theirs is left (rows are processes here)."

SETTINGS = "telemetry: {enabled: false}\n"
DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy } } } }"


@pytest.fixture
def mark():
    mark = new_mark()
    yield mark
    kill_all(mark)


@pytest.fixture
def start(tmp_path, mark):
    def start(environment: dict[str, str] | None = None, wait: bool = True, **more: Any) -> ServedDagster:
        served = start_dagster(tmp_path, None, {VARIABLE: mark, **(environment or {})}, **more)
        if wait:
            wait_until(lambda: has_loaded(served), served.told)
        return served

    return start


def check_nothing_is_left(mark: str, tally: Any, how: str) -> None:
    told = tally(f"`make ui` gets {how}")
    none_is_left(mark, 40)
    told.count(Counter(), Counter(marked(mark).values()), how)


def test_the_project_is_served_to_who_has_the_token_and_all_ends_when_it_is_told(start, tmp_path, mark, tally):
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text(SETTINGS)
    # As in the background of a script, where interrupts are ignored.
    served = start(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert served.locations() == {"elsewhere": "RepositoryLocation"}
    assert len(served.token) >= 32
    # Its output may be a log.
    assert f"{served.url}/asset-groups?token=$(cat {home}/ui.token)" in served.told()

    pages = tmp_path / "home" / "data_docs"
    pages.mkdir(parents=True)
    (pages / "page.html").write_text("found")
    with httpx.Client(trust_env=False, base_url=served.url, follow_redirects=True) as browser:
        assert [browser.get(path).status_code for path in ("/", "/data_docs/page.html")] == [401, 401]
        assert "<html" in browser.get(served.link).text
        page = browser.get("/data_docs/page.html")
        assert page.text == "found"
        assert "sandbox" in page.headers["content-security-policy"]
        (cookie,) = browser.cookies.items()
    with_cookie = {"Cookie": "=".join(cookie)}
    with websocket(served, served.url, with_cookie) as opened:
        opened.send(json.dumps({"type": "connection_init", "payload": {}}))
        assert json.loads(opened.recv(timeout=30)) == {"type": "connection_ack"}
        for origin, headers, status in [("http://evil.example", with_cookie, 403), (served.url, {}, 401)]:
            with pytest.raises(InvalidStatus) as raised:
                websocket(served, origin, headers)
            assert raised.value.response.status_code == status

        # Two daemons on one home would start every run twice.
        second = start(wait=False)
        assert second.process.wait(timeout=120) == 1
        assert f"error: another process serves {home}: stop it" in second.told()

        wait_until(lambda: daemons_are_healthy(served), served.told)
        # Although a websocket is open.
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(timeout=60) == 0
    assert served.token not in served.told()
    assert "Traceback" not in served.told()
    check_nothing_is_left(mark, tally, "SIGINT")
    assert (home / "dagster.yaml").read_text() == SETTINGS
    written = [path for path in home.rglob("*") if path.name != "dagster.yaml"]
    assert [path for path in written if path.stat().st_mode & 0o077] == []
    assert any(path.name == "runs.db" for path in written)


def websocket(served: ServedDagster, origin: str, headers: dict[str, str]) -> Any:
    address, protocols = f"{served.url.replace('http', 'ws')}/graphql", ["graphql-ws"]
    return connect(address, origin=origin, subprotocols=protocols, additional_headers=headers, proxy=None)  # type: ignore[arg-type]


def daemons_are_healthy(served: ServedDagster) -> bool:
    return all(one["healthy"] for one in served.ask(DAEMONS)["instance"]["daemonHealth"]["allDaemonStatuses"])


@pytest.mark.parametrize("port", ["70000", "x", "-1"])
def test_a_port_that_cannot_be_used_is_named(monkeypatch, port):
    monkeypatch.setenv("PORT", port)
    with pytest.raises(Misconfigured, match=rf"port {port} of 127\.0\.0\.1 cannot be used \(.+\): give another PORT"):
        command._serve()


def test_code_that_cannot_be_loaded_is_told_on_the_pages_and_all_end_with_the_daemon(start, tmp_path, mark):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "things.py").write_text("import no_such_module\n")
    served = start()
    assert served.locations() == {"elsewhere": "PythonError"}
    daemon = next(process for process, command in marked(mark).items() if "dagster._daemon" in command)
    os.kill(daemon, signal.SIGKILL)
    assert served.process.wait(timeout=60) == 1
    assert "error: Dagster's daemon has ended (exit code -9)" in served.told()
    assert none_is_left(mark, 60), marked(mark)


def test_a_terminal_gets_the_link_and_one_that_is_closed_takes_the_daemon_along(start, mark):
    ours, theirs = pty.openpty()
    terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": False}
    # The terminal becomes that of a session: its processes are told when it is closed.
    served = start(wait=False, preexec_fn=lambda: os.login_tty(0), **terminal)
    os.close(theirs)
    told = ""
    while not (link := re.search(r"http://\S+/asset-groups\?token=\S+(?=\r)", told)):
        told += os.read(ours, 1_000).decode()
    assert link[0] == served.link
    daemon = next(process for process, command in marked(mark).items() if "dagster._daemon" in command)
    os.close(ours)
    # As where it is killed: nothing of its own can end the daemon.
    assert served.process.wait(timeout=60) == -signal.SIGHUP
    # The code server ends by Dagster's own heartbeats; a daemon would go on to start runs.
    wait_until(lambda: daemon not in marked(mark), "the daemon lives on", 40)
