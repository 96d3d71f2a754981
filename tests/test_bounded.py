"""A run of tests ends by itself: what hangs fails with a traceback, and no process stays; it goes alike however started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bounded import TIMED_OUT

ROOT = Path(__file__).parents[1]
STRAY = """
import subprocess, sys, time
# A daemon: a session of its own, the output inherited, deaf to SIGTERM.
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
time.sleep(float(sys.argv[1]))
sys.exit(7)
"""
HANGING = """
import time

def test_that_hangs():
    time.sleep(600)

def test_that_catches_what_ends_it():
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass

def test_that_passes():
    pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux alone")
@pytest.mark.parametrize(("seconds", "code"), [(1, 7), (600, TIMED_OUT)])
def test_nothing_outlives_a_command_that_ends_or_takes_too_long(seconds, code):
    command = [sys.executable, ROOT / "tests" / "bounded.py", "5", sys.executable, "-c", STRAY, str(seconds)]
    begun = time.monotonic()
    # Waits for the end of all that has inherited the output.
    done = subprocess.run(
        command, env=os.environ | {"BOUNDED_GRACE": "1"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (code, "deaf\n"), done.stderr
    assert "which was left" in done.stderr
    assert time.monotonic() - begun < 60


def test_a_test_that_hangs_fails_with_a_traceback_and_the_others_run(tmp_path):
    (tmp_path / "test_hanging.py").write_text(HANGING)
    limits = ["-o", "timeout=1", "-o", "faulthandler_timeout=4"]
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-n", "1", *limits]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "2 failed, 1 passed" in done.stdout
    assert "Timeout (>1.0s) from pytest-timeout" in done.stdout
    assert "test_hanging.py::test_that_catches_what_ends_it" in done.stdout
    assert "in test_that_catches_what_ends_it" in done.stderr


TOLD = "import signal; print(*(signal.getsignal(number).name for number in (1, 3, 15)), signal.getsignal(2).__name__)"
STARTS = f"""
import signal, subprocess, sys
from tests.inherited_signals import hear_signals
hear_signals()
signal.raise_signal(signal.SIGHUP)
subprocess.run([sys.executable, "-c", {TOLD!r}], check=True)
"""


@pytest.mark.parametrize("ignored", [(), (signal.SIGINT, signal.SIGQUIT), (signal.SIGHUP,)])
def test_what_tests_start_takes_signals_whatever_was_ignored_when_the_suite_began(ignored):
    inherits = f"import os, signal, sys; [signal.signal(number, signal.SIG_IGN) for number in {[*map(int, ignored)]}]"
    starts = STARTS if signal.SIGHUP in ignored else STARTS.replace("signal.raise_signal(signal.SIGHUP)\n", "")
    told = subprocess.run(
        [sys.executable, "-c", f"{inherits}; os.execv(sys.executable, [sys.executable, '-c', {starts!r}])"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["SIG_DFL", "SIG_DFL", "SIG_DFL", "default_int_handler"]
