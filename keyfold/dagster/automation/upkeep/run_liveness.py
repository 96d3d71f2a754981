"""Detect runs whose process has died, by a file lock that each run's process holds.

If a run's process dies with its machine or its code server, Dagster's own launcher cannot distinguish it from a busy run: the
run stays STARTED for ever and keeps its pools. Here, each run's process locks a file in DAGSTER_HOME, and the operating system
releases the lock when the process ends. Run monitoring (dagster.yaml) asks this launcher, marks a run whose file is not
locked as failed, and frees its pools.
"""

import atexit
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus

from keyfold.dagster.automation.upkeep.open_databases import databases_kept_open
from keyfold.dagster.run_config import check_names_no_variable
from keyfold.machine.locks import is_locked, lock_for_life

_FOLDER = "run_locks"


def lock_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Lock a run for this process until the process ends.

    Args:
        run_id: the run, which need not have started.

    Raises:
        BlockingIOError: another process has locked the run.
    """
    lock = _lock_of(instance, run_id)
    lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Until the process ends, not only until the executor does: the run's last event is written after that.
    descriptor = lock_for_life(lock)
    # The process id is only for the message of `died`; the lock alone says whether the process lives.
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    atexit.register(lock.unlink, missing_ok=True)


def died(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """Return why a run is dead; None if its process lives or has locked no file.

    Runs of other executors, and runs on machines that do not share this DAGSTER_HOME, lock no file here.
    """
    lock = _lock_of(instance, run_id)
    try:
        if is_locked(lock):
            return None
        return f"its process {lock.read_text(encoding='utf-8')} has died: it was killed, or its machine went down"
    except FileNotFoundError:
        return None


def forget_ended_runs(instance: dg.DagsterInstance) -> int:
    """Delete the lock files of killed processes whose runs have finished or were deleted; return how many."""
    deleted = 0
    for lock in (Path(instance.root_directory) / _FOLDER).glob("*"):
        run = instance.get_run_by_id(lock.name)
        if (run is None or run.is_finished) and died(instance, lock.name):
            lock.unlink(missing_ok=True)
            deleted += 1
    return deleted


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, extended to detect runs whose process has died."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        cause = died(self._instance, run.run_id)
        return CheckRunHealthResult(WorkerStatus.RUNNING if cause is None else WorkerStatus.NOT_FOUND, cause)


@dg.executor(name="in_process", config_schema=dg.in_process_executor.config_schema)  # pyright: ignore[reportArgumentType]
def watched_in_process_executor(context: dg.InitExecutorContext) -> dg.Executor:
    """Build Dagster's in-process executor, which also locks the run for its process."""
    return _Watched(dg.in_process_executor.executor_creation_fn(context))  # pyright: ignore[reportOptionalCall]


class _Watched(dg.Executor):
    def __init__(self, executor: Any) -> None:
        self._executor = executor

    @property
    def retries(self) -> Any:
        return self._executor.retries

    @property
    def step_dependency_config(self) -> Any:
        return self._executor.step_dependency_config

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        lock_run(plan_context.instance, plan_context.run_id)
        # Checked here, since every run of the project passes here before its first step.
        check_names_no_variable(
            plan_context.job.get_definition().run_config_schema.config_type, plan_context.dagster_run.run_config
        )
        with databases_kept_open(plan_context.instance, plan_context.run_id):
            yield from self._executor.execute(plan_context, execution_plan)


def _lock_of(instance: dg.DagsterInstance, run_id: str) -> Path:
    return Path(instance.root_directory) / _FOLDER / run_id
