"""Runs that are handed to a process which stood by: they run there, can be stopped, and are missed when it dies."""

import os
import signal
import sys
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher.base import LaunchRunContext, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.origin import DEFAULT_DAGSTER_ENTRY_POINT, JobPythonOrigin, RepositoryPythonOrigin
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from dagster_project.standby import launcher as launcher_module
from dagster_project.standby.launcher import StandbyRunLauncher
from tests.dagster_project.standby import waiting_job

MODULE = "tests.dagster_project.standby.waiting_job"
ROOT = Path(__file__).parents[3]
PATIENCE = 90


@pytest.fixture
def instance(tmp_path, monkeypatch):
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\n"
        "run_launcher:\n"
        "  module: dagster_project.standby.launcher\n"
        "  class: StandbyRunLauncher\n"
        f"  config: {{module: {MODULE}, delay_seconds: 0.1}}\n"
    )
    with dg.DagsterInstance.get() as instance:
        yield instance


@pytest.fixture
def launcher(instance, monkeypatch):
    launched = []
    monkeypatch.setattr(DefaultRunLauncher, "launch_run", lambda self, context: launched.append(context))
    launcher = instance.run_launcher
    assert isinstance(launcher, StandbyRunLauncher)
    launcher.launched_as_ever = launched  # pyright: ignore[reportAttributeAccessIssue]
    return launcher


def until(what):
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


def stand_by(launcher):
    launcher._folder = str(ROOT)
    launcher.prepare()
    return until(lambda: launcher._ready.is_ready() and launcher._ready)


HERE = GrpcServerCodeLocationOrigin("localhost", socket="code-server", location_name="keyfold")
ELSEWHERE = GrpcServerCodeLocationOrigin("code.example", port=4000, location_name="keyfold")


def launch(instance, launcher, job, *, executable=sys.executable, server=HERE):
    repository = RepositoryPythonOrigin(
        executable, ModuleCodePointer(MODULE, "defs", working_directory=str(ROOT)), None, DEFAULT_DAGSTER_ENTRY_POINT
    )
    run = instance.create_run_for_job(
        waiting_job.defs.resolve_job_def(job),
        status=dg.DagsterRunStatus.STARTING,
        remote_job_origin=RemoteJobOrigin(RemoteRepositoryOrigin(server, "__repository__"), job),
        job_code_origin=JobPythonOrigin(job, repository),
    )
    launcher.launch_run(LaunchRunContext(run, None))
    return run


def status(instance, run):
    return instance.get_run_by_id(run.run_id).status


def test_a_run_is_taken_by_the_process_that_stood_by_which_then_ends(instance, launcher, tmp_path):
    process = stand_by(launcher).number
    run = launch(instance, launcher, "quick")
    until(lambda: status(instance, run) is dg.DagsterRunStatus.SUCCESS)
    assert (tmp_path / "told").read_text() == str(process)
    assert not launcher.launched_as_ever
    until(lambda: not list((tmp_path / "standby").iterdir()))
    # Another one is made for the next run.
    until(lambda: launcher._ready and launcher._ready.number != process and launcher._ready.is_ready())


def test_without_a_process_that_is_ready_a_run_starts_as_ever_and_the_next_is_taken(instance, launcher, tmp_path):
    launch(instance, launcher, "quick")
    assert len(launcher.launched_as_ever) == 1
    process = until(lambda: launcher._ready and launcher._ready.is_ready() and launcher._ready).number
    run = launch(instance, launcher, "quick")
    until(lambda: status(instance, run) is dg.DagsterRunStatus.SUCCESS)
    assert (tmp_path / "told").read_text() == str(process)
    assert len(launcher.launched_as_ever) == 1


def test_changed_code_is_not_run_by_a_process_that_loaded_it_before(instance, launcher, monkeypatch):
    process = stand_by(launcher)
    monkeypatch.setattr(launcher_module, "code_state", lambda packages: "changed")
    launch(instance, launcher, "quick")
    assert len(launcher.launched_as_ever) == 1
    until(lambda: process._process.poll() is not None)


@pytest.mark.parametrize("place", [{"executable": "/elsewhere/python"}, {"server": ELSEWHERE}])
def test_a_run_of_another_python_or_machine_is_left_to_it(instance, launcher, place):
    process = stand_by(launcher)
    launch(instance, launcher, "quick", **place)
    assert len(launcher.launched_as_ever) == 1
    assert launcher._ready is process


def test_a_process_that_died_meanwhile_takes_no_run(instance, launcher, tmp_path):
    process = stand_by(launcher)
    os.kill(process.number, signal.SIGKILL)
    until(lambda: process._process.poll() is not None)
    launch(instance, launcher, "quick")
    assert len(launcher.launched_as_ever) == 1
    assert not list((tmp_path / "standby").glob("*"))


def test_a_run_is_stopped_and_reported_as_cancelled(instance, launcher, tmp_path):
    stand_by(launcher)
    run = launch(instance, launcher, "slow")
    until((tmp_path / "told").exists)
    assert launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
    assert launcher.terminate(run.run_id)
    until(lambda: status(instance, run) is dg.DagsterRunStatus.CANCELED)


def test_a_run_whose_process_was_killed_is_found_to_have_none(instance, launcher, tmp_path):
    process = stand_by(launcher)
    run = launch(instance, launcher, "slow")
    until((tmp_path / "told").exists)
    os.kill(process.number, signal.SIGKILL)
    until(lambda: process._process.poll() is not None)
    assert launcher.check_run_worker_health(run).status is WorkerStatus.NOT_FOUND
    assert not launcher.terminate(run.run_id)


def test_a_process_ends_with_its_launcher(instance, launcher):
    process = stand_by(launcher)
    launcher.dispose()
    until(lambda: process._process.poll() is not None)
