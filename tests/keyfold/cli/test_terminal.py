"""What the command line shows while it works: a bar with how much is done of all and how long is left; and warnings."""

import errno
import io
import os
import signal
import subprocess
import sys

import pytest
import typer

from keyfold.cli.terminal import failures, progress_of, warn
from keyfold.journal.records import Progress
from keyfold.storage.place import to_place
from tests.faulty_store import Fault, faulty_store


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


@pytest.mark.parametrize("home", ["/proc/home", "/sys/home"])
def test_a_place_that_cannot_be_written_to_is_told_in_one_line(errors, home):
    shown = errors(io.StringIO())
    with pytest.raises(typer.Exit) as raised, failures(), to_place(home).exclusive("job rides"):
        pass
    assert raised.value.exit_code == 1
    assert shown.getvalue().startswith(f"error: {home}")
    assert "must be a folder that this user may write to" in shown.getvalue()


@pytest.mark.parametrize(("number", "told"), [(errno.EROFS, "Read-only file system"), (errno.ENOSPC, "No space left")])
def test_a_fault_of_the_disk_is_told_in_one_line_and_any_other_keeps_its_traceback(errors, number, told):
    shown = errors(io.StringIO())
    with pytest.raises(typer.Exit), failures():
        raise OSError(number, os.strerror(number), "/data/rides")
    assert shown.getvalue().startswith(f"error: /data/rides: {told}")
    with pytest.raises(FileNotFoundError), failures():
        raise FileNotFoundError(errno.ENOENT, "gone", "/data/rides")


def test_a_store_that_refuses_is_told_with_what_is_wrong_with_the_settings(errors, bucket, object_store, monkeypatch):
    shown = errors(io.StringIO())
    place = to_place(f"s3a://{bucket}/home/plan.json")
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        faulty.choose = lambda _: Fault.DENIED
        with pytest.raises(typer.Exit) as raised, failures():
            place.read_bytes()
    assert raised.value.exit_code == 1
    assert shown.getvalue().startswith(f"error: {place}: http://127.0.0.1:")
    assert "refuses these credentials" in shown.getvalue()
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in shown.getvalue()


def test_of_a_store_that_answers_again_is_told_what_it_had_said(errors, bucket, object_store, monkeypatch):
    shown = errors(io.StringIO())
    place = to_place(f"s3a://{bucket}/home/plan.json")
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        faulty.choose = lambda request: None if "list-type" in request.path else Fault.DENIED
        with pytest.raises(typer.Exit), failures():
            place.read_bytes()
    assert shown.getvalue().startswith(f"error: a request to the object store failed for {place}")
    assert len(shown.getvalue().splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_inherited_an_ignored_signal_stops_by_it_all_the_same(number):
    """A shell starts a script's background jobs with SIGINT ignored."""
    program = (
        "import os, signal\n"
        "from keyfold.cli.terminal import stop_on_signal\n"
        f"assert signal.getsignal({number}) == signal.SIG_IGN\n"
        f"stop = stop_on_signal()\nos.kill(os.getpid(), {number})\nprint(stop.wait(10))"
    )
    before = signal.signal(number, signal.SIG_IGN)
    try:
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    finally:
        signal.signal(number, before)
    assert told.stdout == "True\n"
