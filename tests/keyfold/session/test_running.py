"""A Java that ends while a command works is told in words; whatever else fails is told as what it is."""

import errno
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import typer
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.cli.terminal import failures
from keyfold.errors import KeyfoldError
from keyfold.runners import Runners
from keyfold.session import SparkSettings
from keyfold.session import start as starting
from keyfold.session.start import running_session
from spark_jobs.simulation import simulate

WORDS = "Spark's Java process has ended: somebody killed it, or the machine ran out of memory"


@pytest.fixture
def java(monkeypatch):
    """A process in the place of Java, to which a session is the one of this process."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def stop():
        if process.poll() is not None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        process.kill()
        process.wait()

    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr(starting, "build_session", lambda _: SimpleNamespace(stop=stop))
    monkeypatch.setattr(starting, "is_running", lambda: False)
    monkeypatch.setattr(starting, "work_ends_on_interrupt", lambda _: nullcontext())
    yield process
    process.kill()
    process.communicate()


def fail(error, process=None):
    """Fail, after Java was killed if that is given."""
    if process is not None:
        process.kill()
        process.wait()
    raise error


@pytest.mark.parametrize("place", ["hdfs://names:8020/lake", "viewfs://lake/home", "abfss://a@b/home"])
@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (("run", "ride_summaries", "--home"), None),
        (("ingest", "ride_points", "--from"), None),
        (("ingest", "ride_points"), "KEYFOLD_LANDING"),
        (("show", "ride_summaries"), "KEYFOLD_HOME"),
        (("simulate", "--to"), None),
    ],
)
def test_a_home_or_landing_folder_on_another_file_system_is_refused_before_java_starts(
    monkeypatch, tmp_path, arguments, variable, place
):
    monkeypatch.setattr(starting, "build_session", lambda _: pytest.fail("Java was started"))
    monkeypatch.setenv("KEYFOLD_HOME", str(tmp_path))
    if variable:
        monkeypatch.setenv(variable, f"ride_points={place}" if variable == "KEYFOLD_LANDING" else place)
    answer = CliRunner().invoke(app, [*arguments] if variable else [*arguments, place])
    scheme = place.partition("://")[0]
    assert answer.exit_code == 1
    assert answer.stderr.startswith(f"error: {place}: Keyfold reads and writes folders and buckets")
    assert f"but not {scheme}://. Mount that file system as a folder" in " ".join(answer.stderr.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    ],
)
def test_a_java_that_was_killed_is_told_whatever_python_saw_of_it(java, error, capsys):
    with pytest.raises(typer.Exit) as ended, failures(), running_session(SparkSettings()):
        fail(error, java)
    assert ended.value.exit_code == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error: {WORDS}")
    assert "run it again" in told
    assert "Traceback" not in told


def test_while_java_runs_an_error_is_what_it_is(java):
    with pytest.raises(Py4JNetworkError, match="of a proxy"), running_session(SparkSettings()):
        fail(Py4JNetworkError("of a proxy"))
    assert java.poll() is not None, "the session is stopped"


def test_what_went_wrong_before_java_ended_is_told_and_not_hidden(java):
    with pytest.raises(KeyfoldError, match="the step raised"), running_session(SparkSettings()):
        fail(KeyfoldError("the step raised"), java)


def test_a_few_files_are_ingested_without_java(monkeypatch, tmp_path):
    monkeypatch.setattr(starting, "build_session", lambda _: pytest.fail("Java was started"))
    simulate("ride_points", tmp_path / "landing" / "ride_points", size=2, files=4)
    answer = CliRunner().invoke(app, ["ingest", "ride_points", "--settle", "0", "--home", str(tmp_path)])
    assert answer.exit_code == 0, answer.output


def test_a_session_is_started_when_work_first_needs_it_and_then_stopped(monkeypatch):
    told = []

    @contextmanager
    def start(_):
        told.append("started")
        yield SimpleNamespace(version="4.2.0")
        told.append("stopped")

    monkeypatch.setattr(starting, "running_session", start)
    with Runners("spark") as runners:
        assert told == []
        assert runners.session.version == runners.session.version == "4.2.0"
        assert told == ["started"]
    assert told == ["started", "stopped"]
