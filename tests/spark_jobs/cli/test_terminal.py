"""What the command line shows while it works: a bar with how much is done of all and how long is left; and warnings."""

import io
import sys

import pytest

from spark_jobs.cli.terminal import progress_of, warn
from spark_jobs.journal.progress import Progress


class Terminal(io.StringIO):
    """Standard error with somebody in front of it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def errors(monkeypatch):
    def errors(stream):
        monkeypatch.setenv("COLUMNS", "160")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return errors


def test_on_a_terminal_progress_says_how_much_is_done_of_all_and_how_long_is_left(errors):
    shown = errors(Terminal())
    with progress_of("ride_summaries") as tell:
        tell(Progress(batch=3, batches=4, done=3_000, total=4_000, unit="rows", seconds_left=12.3))
    assert "batch 3 of 4, 75% of 4,000 rows, about 12 s left" in shown.getvalue()


def test_elsewhere_it_says_nothing(errors):
    shown = errors(io.StringIO())
    with progress_of("ride_summaries") as tell:
        tell(Progress(batch=1, batches=1, done=0, total=0, unit="rows"))
    assert shown.getvalue() == ""


def test_warnings_are_a_line_each_as_they_are(errors):
    shown = errors(io.StringIO())
    warn(["files [1, 2] span all", "the clock jumped"])
    assert shown.getvalue().splitlines() == ["warning: files [1, 2] span all", "warning: the clock jumped"]
