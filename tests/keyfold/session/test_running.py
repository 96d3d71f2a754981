"""A Java that ends while a command works is told in words; whatever else fails is told as what it is."""

import errno
from unittest.mock import MagicMock

import pytest
import typer
from py4j.protocol import Py4JNetworkError
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.cli.terminal import failures
from keyfold.errors import KeyfoldError
from keyfold.runners import Runners
from keyfold.session import SparkSettings
from keyfold.session import start as starting
from keyfold.session.java import java_end_explained
from spark_jobs.simulation import simulate


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
def test_a_java_that_was_killed_is_told_whatever_python_saw_of_it(error, capsys):
    with pytest.raises(typer.Exit) as ended, failures(), java_end_explained():
        raise error
    assert ended.value.exit_code == 1
    printed = capsys.readouterr().err
    assert printed.startswith(
        "error: Spark's Java process has ended: somebody killed it, or the machine ran out of memory"
    )
    assert "run it again" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("error", [KeyfoldError("the step raised"), OSError(errno.ENOSPC, "No space left")])
def test_while_java_runs_an_error_is_what_it_is(error):
    with pytest.raises(type(error), match=str(error)[-12:]), java_end_explained():
        raise error


def test_a_few_files_are_ingested_without_java(monkeypatch, tmp_path):
    monkeypatch.setattr(starting, "build_session", lambda _: pytest.fail("Java was started"))
    simulate("ride_points", tmp_path / "landing" / "ride_points", size=2, files=4)
    answer = CliRunner().invoke(app, ["ingest", "ride_points", "--settle", "0", "--home", str(tmp_path)])
    assert answer.exit_code == 0, answer.output


def test_a_session_is_started_when_work_first_needs_it_and_stopped_when_the_last_user_leaves(monkeypatch):
    session = MagicMock()
    started = MagicMock(return_value=session)
    monkeypatch.setattr(starting, "build_session", started)
    # As of a process of its own, whatever session other tests of this one share.
    monkeypatch.setattr(starting, "_running", lambda: session if started.called else None)
    with Runners("spark") as runners:
        started.assert_not_called()
        assert runners.session is runners.session is session
        with Runners("spark") as others:
            assert others.session is session
        session.stop.assert_not_called()
        assert runners.session is session
    session.stop.assert_called_once()


def test_a_session_that_the_caller_hands_over_or_has_started_is_not_stopped(monkeypatch):
    session = MagicMock()
    monkeypatch.setattr(starting, "build_session", lambda _: session)
    monkeypatch.setattr(starting, "_running", lambda: session)
    for spark in (session, SparkSettings()):
        with Runners("spark", spark) as runners:
            assert runners.session is session
    session.stop.assert_not_called()
