"""The supervisor: however it ends, nothing of its servers is left, and they end in order where they can."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from keyfold.dagster.serving.supervisor import Server
from tests.keyfold.dagster.serving.marked import VARIABLE, kill_all, marked, new_mark, none_is_left
from tests.waiting import wait_until

ROOT = Path(__file__).parents[4]

PROMISE = "However the servers of `make ui` end, no process of theirs is left (rows are processes here)."

STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:      # a child with a session of its own
    os.setsid()
    if os.fork() == 0:  # and one whose parent has died
        time.sleep(0.2)
        open(sys.argv[1] + ".orphan", "w").close()
        time.sleep(600)
    os._exit(0)
open(sys.argv[1], "w").close()
time.sleep(600)
"""
ORDERLY = """
import signal, sys, time
def end(*_):
    open(sys.argv[1] + ".ended", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # as Dagster's servers do
try:
    open(sys.argv[1], "w").close()
    time.sleep(600)
except KeyboardInterrupt:
    end()
"""
PROGRAM = """
import sys
from pathlib import Path
from typing import Any
from keyfold.dagster.serving.supervisor import Server, supervise
folder = Path(sys.argv[1])
servers = [
    Server("one", [sys.executable, "-c", (folder / "stubborn.py").read_text(), str(folder / "stubborn")]),
    Server("two", [sys.executable, "-c", (folder / "orderly.py").read_text(), str(folder / "orderly")],
           after=folder / "stubborn"),
]
sys.exit(supervise(servers, grace=1, at_end=(folder / "over").touch))
"""


@pytest.fixture
def mark():
    mark = new_mark()
    yield mark
    kill_all(mark)


def started(folder: Path, mark: str, ignored: Collection[signal.Signals] = ()) -> subprocess.Popen[Any]:
    """The program, with its servers up; signals are its own affair, whatever the tests were started with (nohup, `&`)."""

    def take_signals() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    (folder / "stubborn.py").write_text(STUBBORN)
    (folder / "orderly.py").write_text(ORDERLY)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=ROOT,
        env={**os.environ, VARIABLE: mark},
        start_new_session=True,
        preexec_fn=take_signals,  # noqa: PLW1509 - no thread of the tests holds a lock that this needs
    )
    for name in ("stubborn", "orderly", "stubborn.orphan"):
        wait_until((folder / name).exists, f"{name} never came")
    assert len(marked(mark)) == 5, marked(mark)  # two who watch, the two servers, the orphan
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_no_process_is_left_when_it_is_told_to_stop_or_killed(tmp_path, mark, tally, number):
    told, process = tally(f"`make ui` gets {number.name}"), started(tmp_path, mark)
    process.send_signal(number)
    assert process.wait(timeout=20) == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    none_is_left(mark, 20)
    told.count(Counter(), Counter(marked(mark).values()), number.name)
    assert (tmp_path / "orderly.ended").exists()
    assert (tmp_path / "over").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_same_where_interrupts_are_ignored_as_in_the_background_of_a_script(tmp_path, mark, number):
    process = started(tmp_path, mark, ignored={signal.SIGINT})
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(number)
    process.wait(timeout=20)
    assert none_is_left(mark, 20), marked(mark)
    # Its servers do not ignore them: what maps its TERM to its interrupt would never end.
    assert (tmp_path / "orderly.ended").exists()


def test_a_killed_guardian_leaves_nothing_either(tmp_path, mark):
    process = started(tmp_path, mark)
    guardian = next(one for one, command in marked(mark).items() if one != process.pid and "supervise(" in command)
    os.kill(guardian, signal.SIGKILL)
    assert process.wait(timeout=20) == 1
    assert none_is_left(mark, 20), marked(mark)


def test_what_it_is_killed_with_as_a_group_does_not_reach_the_guardian(tmp_path, mark):
    process = started(tmp_path, mark)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
    assert none_is_left(mark, 20), marked(mark)
    assert (tmp_path / "over").exists()


def run(servers: list[Server]) -> subprocess.CompletedProcess[str]:
    """Supervise servers in a process of its own: what it adopts and takes the signals of stays its own."""
    program = (
        "import sys\nfrom pathlib import *\nfrom keyfold.dagster.serving.supervisor import Server, supervise\n"
        "report = lambda server, code, done: print(server.name, code, done, flush=True)\n"
        f"sys.exit(supervise({servers!r}, report=report))"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, timeout=60, check=False, capture_output=True, text=True
    )


def server(name: str, program: str, *arguments: Path, **more) -> Server:
    return Server(name, [sys.executable, "-c", f"import os, sys, time; {program}", *map(str, arguments)], **more)


def test_all_end_with_one_that_is_needed_and_go_on_without_one_that_is_not(tmp_path):
    over = tmp_path / "over"
    began = time.monotonic()
    told = run(
        [
            server("the web server", "time.sleep(2)"),
            server("the alerts", "sys.exit(3)", is_needed=False),
            server("the daemon", "open(sys.argv[1], 'w'); time.sleep(600)", over),
        ]
    )
    assert told.returncode == 1
    assert 2 <= time.monotonic() - began < 30
    assert over.exists()
    assert told.stderr == "the alerts has ended\nthe web server has ended: ending all servers\n"
    assert told.stdout == "the alerts 3 left\nthe web server 0 ended all\n"


def test_a_server_that_dies_is_started_again_once_and_each_end_is_reported(tmp_path):
    twice = "import signal; open(sys.argv[1], 'a').write('+'); os.kill(os.getpid(), signal.SIGKILL)"
    begun = tmp_path / "begun"
    told = run(
        [
            server("the alerts", twice, begun, is_needed=False, restarts=1),
            server(
                "the web server",
                "p = sys.argv[1]\nwhile not os.path.exists(p) or len(open(p).read()) < 2: time.sleep(0.1)\ntime.sleep(1)",
                begun,
            ),
        ]
    )
    assert begun.read_text() == "++"
    assert told.stdout == "the alerts -9 restarted\nthe alerts -9 left\nthe web server 0 ended all\n"


def test_a_server_waits_for_what_it_needs_and_gets_its_environment(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    write = "open(sys.argv[1], 'w').write(os.environ['WHO'] + str(os.path.exists(sys.argv[2])))"
    told = run(
        [
            server("slow", "time.sleep(1); open(sys.argv[1], 'w'); time.sleep(600)", first),
            server("next", write, second, first, after=first, environment={"WHO": "next"}),
        ]
    )
    assert told.returncode == 1
    assert second.read_text() == "nextTrue"
