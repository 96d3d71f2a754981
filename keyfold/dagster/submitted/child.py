"""Execute a step's definitions in the child process, and report by Dagster Pipes.

The child has an in-memory Dagster instance. The step passes it the run's tags, the config, and the last materialization of
each table. Its Spark session is that of `resources.py`; spark-submit has already started its Java process.
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

from keyfold.dagster.submitted.messages import report_event, report_failure, report_process
from keyfold.errors import is_keyfold_error
from keyfold.machine.locks import is_locked
from keyfold.machine.private_files import keep_files_private
from keyfold.session import SparkSettings
from keyfold.session.redaction import without_secrets

_JOB = "of_one_step"
_LOOKS_EVERY = 1.0
_GRACE_SECONDS = 20.0
_BLOCKED = "DagsterAssetCheckFailedError"
"""Dagster's error of a failed blocking check. It is not reported: the check's result already fails the launching step."""


class Task(BaseModel):
    """The work of the child process.

    Attributes:
        module: the module that has the definitions as `defs`.
        step: the name of the op that writes the tables.
        assets: keys of its tables; empty if only checks run.
        checks: asset key and name of each check.
        config: config of the op.
        resources: run config of the resources.
        tags: tags of the run.
        before: the last materialization of each table, in Dagster's serialisation.
        alive: a file that the launching process keeps locked while it lives.
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
    """Execute the task in the Pipes context; exit with code 1 if it fails."""
    keep_files_private()
    with open_dagster_pipes() as pipes:
        task = Task.model_validate(pipes.extras)
        Thread(target=_end_with, args=(task.alive,), name="end-with-the-run", daemon=True).start()
        report_process(pipes, os.getpid())
        error = _execute(task, pipes)
        if error is None:
            return
        report_failure(pipes, _words(error), _as_exception(error))
    sys.exit(1)


def _execute(task: Task, pipes: PipesContext) -> SerializableErrorInfo | None:
    """Execute the task and report its events; return its error, if any."""
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
        # Added only now, so that the earlier materializations are not reported.
        instance.add_event_listener(pipes.run_id, lambda entry, *_: _report(entry, pipes, errors))
        done = job.execute_in_process(
            run_config={
                "resources": task.resources,
                # Events are reported by Pipes, so the console stays silent.
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
        report_event(pipes, event.step_materialization_data.materialization)
    elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
        report_event(pipes, event.asset_check_evaluation_data)
    elif event.is_asset_observation:
        report_event(pipes, event.asset_observation_data.asset_observation)
    elif event.is_failure and (error := getattr(event.event_specific_data, "error", None)) is not None:
        errors.append(error)


def _words(error: SerializableErrorInfo) -> str:
    """Return the message of the innermost cause; the outer errors only say where in Dagster it was raised."""
    while error.cause is not None:
        error = error.cause
    name, _, message = error.message.partition(": ")
    # A Keyfold error's message is complete; other messages need the error's class.
    text = message if is_keyfold_error(name) else error.message
    return _without_secrets(text.strip())


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
    """End this process when the process that launched it has ended in any way."""
    while is_locked(alive):
        time.sleep(_LOOKS_EVERY)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE_SECONDS)
    # The launching process has put this process and its Java into one group.
    os.killpg(os.getpgid(0), signal.SIGKILL)
