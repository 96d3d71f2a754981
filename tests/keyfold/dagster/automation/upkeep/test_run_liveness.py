"""A run whose process was killed has failed within two minutes, and its pool is free; one that lives is left alone."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
import yaml
from dagster._daemon.monitoring.concurrency import execute_concurrency_slots_iteration
from dagster._daemon.monitoring.run_monitoring import execute_run_monitoring_iteration

from keyfold.dagster.automation.upkeep.run_liveness import died, forget_ended_runs, lock_run
from keyfold.dagster.serving.home import make_databases
from tests.keyfold.dagster.automation.waiting_job import POOL
from tests.keyfold.dagster.serving.marked import VARIABLE, kill_all, marked, new_mark
from tests.waiting import wait_until

ROOT = Path(__file__).parents[5]
SHIPPED = ROOT / "keyfold" / "dagster" / "dagster.yaml"
MODULE = "tests.keyfold.dagster.automation.waiting_job"
LAUNCHER = "{module: keyfold.dagster.automation.upkeep.run_liveness, class: WatchedRunLauncher}"
PATIENCE = 90


@pytest.fixture
def mark():
    mark = new_mark()
    yield mark
    kill_all(mark)


@pytest.fixture
def environment(tmp_path, mark):
    home = tmp_path / "home"
    home.mkdir()
    return {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "PYTHONPATH": str(ROOT),
        "TOLD": str(tmp_path / "told"),
        VARIABLE: mark,
    }


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus | None:
    run = instance.get_run_by_id(run_id)
    return run.status if run else None


def execute(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Run the job in a process of its own, as on the command line."""
    return subprocess.Popen(
        [sys.executable, "-m", "dagster", "job", "execute", "-m", MODULE, "-j", "waiting"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def monitor(instance: dg.DagsterInstance) -> None:
    """What Dagster's daemon does every `poll_interval_seconds`."""
    context = SimpleNamespace(instance=instance, create_request_context=lambda: None)
    logger = logging.getLogger("monitoring")
    for iteration in (execute_run_monitoring_iteration, execute_concurrency_slots_iteration):
        assert not any(iteration(context, logger))  # pyright: ignore[reportArgumentType]


def pool_holders(instance: dg.DagsterInstance) -> set[str]:
    return instance.event_log_storage.get_concurrency_info(POOL).active_run_ids


def test_a_killed_run_has_failed_and_its_pool_is_free_and_a_living_one_is_left_alone(tmp_path, environment):
    home = Path(environment["DAGSTER_HOME"])
    (home / "dagster.yaml").write_text(
        f"concurrency: {{pools: {{default_limit: 1}}}}\nrun_launcher: {LAUNCHER}\n"
        "run_monitoring: {enabled: true, free_slots_after_run_end_seconds: 1}\n"
    )
    process = execute(environment)
    wait_until((tmp_path / "told").exists)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        [run] = instance.get_runs()
        monitor(instance)
        assert status(instance, run.run_id) is dg.DagsterRunStatus.STARTED
        assert pool_holders(instance) == {run.run_id}

        process.kill()
        process.wait()
        monitor(instance)
        assert status(instance, run.run_id) is dg.DagsterRunStatus.FAILURE
        failure = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)[0].message
        assert f"its process {process.pid} has died" in failure
        time.sleep(2.1)
        monitor(instance)
        assert pool_holders(instance) == set()

        assert forget_ended_runs(instance) == 1
        assert not any((home / "run_locks").iterdir())


def test_a_run_that_ends_by_itself_leaves_no_lock_and_keeps_it_to_its_last_event(tmp_path, environment):
    home = Path(environment["DAGSTER_HOME"])
    process = execute(environment | {"SECONDS": "0"})
    assert process.wait(timeout=PATIENCE) == 0
    assert not any((home / "run_locks").iterdir())


def test_a_run_without_a_lock_is_nobody_s_to_judge_and_a_run_has_one_process():
    with dg.instance_for_test() as instance:
        assert died(instance, "of-another-machine") is None
        lock_run(instance, "mine")
        assert died(instance, "mine") is None
        with pytest.raises(BlockingIOError):
            lock_run(instance, "mine")
        assert forget_ended_runs(instance) == 0, "it lives, whatever the instance knows"


def test_the_shipped_settings_take_less_than_two_minutes():
    settings = yaml.safe_load(SHIPPED.read_text())["run_monitoring"]
    polls, free = settings["poll_interval_seconds"], settings["free_slots_after_run_end_seconds"]
    assert settings["enabled"]
    assert polls + settings["start_timeout_seconds"] + 5 < 120
    assert polls + free + polls + 5 < 120


# A killed run is judged above as the daemon does it, and `alerts/test_with_the_daemon.py` starts daemons. Here all of it is
# shipped: the settings with their launcher, the daemon's command, and a run that the daemon has started.
@pytest.mark.long
@pytest.mark.slow
def test_under_the_live_daemon_a_run_of_a_machine_that_went_down_is_over_in_two_minutes(tmp_path, environment, mark):
    """Started by the daemon's own code server, and killed together with it: nobody who has seen it start is left."""
    home = Path(environment["DAGSTER_HOME"])
    shutil.copy(SHIPPED, home / "dagster.yaml")
    make_databases(home)
    daemon = [sys.executable, "-m", "keyfold.dagster.serving.daemon", "-m", MODULE]
    log = (tmp_path / "daemon.txt").open("wb")
    first = subprocess.Popen(daemon, cwd=ROOT, env=environment, stdout=log, stderr=log)
    launch = [sys.executable, "-m", "dagster", "job", "launch", "-m", MODULE, "-j", "waiting"]
    subprocess.run(launch, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=PATIENCE)
    wait_until((tmp_path / "told").exists)
    assert int((tmp_path / "told").read_text()) in marked(mark)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        [run] = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.STARTED
        kill_all(mark)
        assert first.wait() == -signal.SIGKILL
        second = subprocess.Popen(daemon, cwd=ROOT, env=environment, stdout=log, stderr=log)
        began = time.monotonic()
        wait_until(lambda: status(instance, run.run_id) is dg.DagsterRunStatus.FAILURE, seconds=120)
        wait_until(lambda: not pool_holders(instance), seconds=began + 120 - time.monotonic())
        second.terminate()
        second.wait(timeout=60)
    log.close()
