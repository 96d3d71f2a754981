"""Who starts a session, and who stops it: it starts when work first needs it, and stops with the one that started it."""

from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.runners import Runners
from keyfold.session import SparkSettings
from keyfold.session import start as starting
from spark_jobs.simulation import simulate


@pytest.mark.parametrize("place", ["hdfs://names:8020/lake", "viewfs://lake/home", "abfss://a@b/home"])
@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (("run", "ride_summaries", "--home"), None),
        (("ingest", "ride_points", "--from"), None),
        (("ingest", "ride_points"), "KEYFOLD_LANDING"),
        (("show", "ride_summaries"), "KEYFOLD_HOME"),
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


def test_a_few_files_are_ingested_without_java(monkeypatch, tmp_path):
    monkeypatch.setattr(starting, "build_session", lambda _: pytest.fail("Java was started"))
    simulate("ride_points", tmp_path / "landing" / "ride_points", size=2, files=4)
    answer = CliRunner().invoke(app, ["ingest", "ride_points", "--settle", "0", "--home", str(tmp_path)])
    assert answer.exit_code == 0, answer.output


def test_a_session_is_started_when_work_first_needs_it_and_stopped_by_the_one_that_started_it(monkeypatch):
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
