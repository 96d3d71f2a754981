"""Whether a run's process lives: a lock that it holds for life, and a launcher that looks.

Dagster's own launcher cannot tell a run whose process has died with its machine, or with the code server that started
it, from one that is busy: such a run stays STARTED for ever and holds its pools. Here each run's process locks a file
below DAGSTER_HOME. A lock cannot outlive its process, nor be another's; run monitoring (dagster.yaml) asks this launcher,
and marks as failed what has a file that nobody locks. It then frees the pools.
"""

import atexit
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus

from keyfold.dagster.run_config import check_names_no_variable
from keyfold.machine.locks import is_locked, lock_for_life

_FOLDER = "run_locks"


def lock_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Say that this process has a run, until it ends in whatever way.

    Args:
        instance: whose run it is.
        run_id: of the run, which need not have begun.

    Raises:
        BlockingIOError: another process has it.
    """
    lock = _lock_of(instance, run_id)
    lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # For life, and not as long as the executor works: the run's last event is written after that.
    descriptor = lock_for_life(lock)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    atexit.register(lock.unlink, missing_ok=True)


def died(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """What to say of a run whose process is gone, None where it lives or took no lock.

    Without a lock are the runs of other executors, and those whose machine does not share this DAGSTER_HOME.
    """
    lock = _lock_of(instance, run_id)
    try:
        if is_locked(lock):
            return None
        return f"its process {lock.read_text(encoding='utf-8')} is gone: killed, or its machine went down"
    except FileNotFoundError:
        return None


def forget_ended_runs(instance: dg.DagsterInstance) -> int:
    """Delete the locks of killed processes whose runs are over or gone; gives how many."""
    deleted = 0
    for lock in (Path(instance.root_directory) / _FOLDER).glob("*"):
        run = instance.get_run_by_id(lock.name)
        if (run is None or run.is_finished) and died(instance, lock.name):
            lock.unlink(missing_ok=True)
            deleted += 1
    return deleted


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, and it knows of runs whose process has died."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        gone = died(self._instance, run.run_id)
        return CheckRunHealthResult(WorkerStatus.RUNNING if gone is None else WorkerStatus.NOT_FOUND, gone)


@dg.executor(name="in_process", config_schema=dg.in_process_executor.config_schema)  # pyright: ignore[reportArgumentType]
def watched_in_process_executor(context: dg.InitExecutorContext) -> dg.Executor:
    """Dagster's in-process executor, in a process that says whether it lives."""
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
        # Here, since every run of the project comes by here, and before any step.
        check_names_no_variable(
            plan_context.job.get_definition().run_config_schema.config_type, plan_context.dagster_run.run_config
        )
        yield from self._executor.execute(plan_context, execution_plan)


def _lock_of(instance: dg.DagsterInstance, run_id: str) -> Path:
    return Path(instance.root_directory) / _FOLDER / run_id
