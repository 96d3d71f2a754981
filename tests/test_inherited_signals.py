"""A suite in the background of a script, or below `nohup`, tests what one in a terminal tests."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
