"""What a process of its own does: executes definitions on a Dagster of its own, and reports by Dagster Pipes.

Its Dagster is in memory, and knows of the real one what the step has told it: tags of the run, config, and what was last
written of each table. Its Spark session is that of `resources.py`, whose Java spark-submit has started already.
"""

import logging
import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
from dagster._utils.error import SerializableErrorInfo
from dagster_pipes import PipesContext, PipesException, open_dagster_pipes
from pydantic import BaseModel

from keyfold.dagster.submitted.messages import tell_event, tell_failure, tell_process
from keyfold.errors import is_keyfold_error
from keyfold.machine.locks import is_locked
from keyfold.machine.private_files import keep_files_private
from keyfold.session import SparkSettings
from keyfold.session.redaction import without_secrets

_JOB = "of_one_step"
_LOOKS_EVERY = 1.0
_GRACE_SECONDS = 20.0
_BLOCKED = "DagsterAssetCheckFailedError"
"""A blocking check has failed: its result says so, and the step that launched this process fails by it."""


class Task(BaseModel):
    """What the process is to execute.

    Attributes:
        module: that holds the definitions, as `defs`.
        step: the name of the operation that writes the tables.
        assets: keys of its tables; none where only checks are wanted.
        checks: asset key and name of each check.
        config: of the operation.
        resources: run config of the resources.
        tags: of the run.
        before: the last materialization of each table, by Dagster's own serialisation.
        alive: a file that the launching process has locked for as long as it lives.
    """

    module: str
    step: str
    assets: list[str]
    checks: list[tuple[str, str]]
    config: dict[str, Any]
    resources: dict[str, Any]
    tags: dict[str, str]
    before: list[str]
    alive: Path


def main() -> None:
    """Do the task that the launching step has put into the Pipes context; the exit code is 1 where it failed."""
    keep_files_private()
    with open_dagster_pipes() as pipes:
        task = Task.model_validate(pipes.extras)
        Thread(target=_end_with, args=(task.alive,), name="end-with-the-run", daemon=True).start()
        tell_process(pipes, os.getpid())
        error = _execute(task, pipes)
        if error is None:
            return
        tell_failure(pipes, _words(error), _as_exception(error))
    sys.exit(1)


def _execute(task: Task, pipes: PipesContext) -> SerializableErrorInfo | None:
    """Execute the task, and report it as it goes; gives the error that it failed with."""
    definitions: dg.Definitions = import_module(task.module).defs
    tables = dg.AssetSelection.assets(*map(dg.AssetKey.from_escaped_user_string, task.assets)).without_checks()
    checks = dg.AssetSelection.checks(
        *(dg.AssetCheckKey(dg.AssetKey.from_escaped_user_string(asset), name) for asset, name in task.checks)
    )
    wanted = dg.define_asset_job(_JOB, selection=tables | checks if task.assets else checks)
    job = dg.Definitions.merge(definitions, dg.Definitions(jobs=[wanted])).resolve_job_def(_JOB)
    errors: list[SerializableErrorInfo] = []
    with dg.DagsterInstance.ephemeral() as instance:
        for text in task.before:
            instance.report_runless_asset_event(dg.deserialize_value(text, dg.AssetMaterialization))
        # From here on: what was written before is not to be reported.
        instance.add_event_listener(pipes.run_id, lambda entry, *_: _report(entry, pipes, errors))
        done = job.execute_in_process(
            run_config={
                "resources": task.resources,
                # What it would print is reported.
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
                "ops": {task.step: {"config": task.config}} if task.assets and task.config else {},
            },
            instance=instance,
            run_id=pipes.run_id,
            tags=task.tags,
            raise_on_error=False,
        )
    if done.success:
        return None
    failed = [error for error in errors if error.cls_name != _BLOCKED]
    return failed[0] if failed else None


def _report(entry: dg.EventLogEntry, pipes: PipesContext, errors: list[SerializableErrorInfo]) -> None:
    event = entry.dagster_event
    if event is None:
        level = entry.level if isinstance(entry.level, int) else logging.getLevelNamesMapping()[entry.level.upper()]
        pipes.log.log(level, _without_secrets(entry.user_message))
    elif event.is_step_materialization:
        tell_event(pipes, event.step_materialization_data.materialization)
    elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
        tell_event(pipes, event.asset_check_evaluation_data)
    elif event.is_asset_observation:
        tell_event(pipes, event.asset_observation_data.asset_observation)
    elif event.is_failure and (error := getattr(event.event_specific_data, "error", None)) is not None:
        errors.append(error)


def _words(error: SerializableErrorInfo) -> str:
    """What the innermost cause says: what is around it says where in Dagster it came up."""
    while error.cause is not None:
        error = error.cause
    name, _, message = error.message.partition(": ")
    # An error for people says all; of others the kind tells something.
    told = message if is_keyfold_error(name) else error.message
    return _without_secrets(told.strip())


def _as_exception(error: SerializableErrorInfo | None) -> PipesException | None:
    if error is None:
        return None
    return {
        "message": _without_secrets(error.message),
        "stack": [_without_secrets(line) for line in error.stack],
        "name": error.cls_name,
        "cause": _as_exception(error.cause),
        "context": _as_exception(error.context),
    }


def _without_secrets(text: str) -> str:
    return without_secrets(text, SparkSettings.from_environment().conf)


def _end_with(alive: Path) -> None:
    """End the work when the process that launched it is no more, however that ended."""
    while is_locked(alive):
        time.sleep(_LOOKS_EVERY)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE_SECONDS)
    # Java is of the same group, which the launching process has made for both.
    os.killpg(os.getpgid(0), signal.SIGKILL)
