"""Execute a step's definitions in the child process, and report by Dagster Pipes.

The child has an in-memory Dagster instance. The step passes it the run's tags, the config, and the last materialization of
each table. Its Spark session is that of `resources.py`; spark-submit has already started its Java process.

Pipes carries the logs and the stack of an error. Tables, checks and observations go as custom messages, in Dagster's
serialisation: Pipes' own messages leave out a check's description, and know fewer kinds of metadata.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
from dagster._utils.error import SerializableErrorInfo
from dagster_pipes import PipesContext, PipesException, open_dagster_pipes

from keyfold.errors import is_keyfold_error
from keyfold.machine.locks import is_locked
from keyfold.machine.private_files import keep_files_private
from keyfold.session import SparkSettings
from keyfold.session.redaction import without_secrets

FAILURE = "failure"
"""Key of the custom message that says why the work failed."""

_JOB = "of_one_step"
_LOOKS_EVERY = 1.0
_GRACE_SECONDS = 20.0
_BLOCKED = "DagsterAssetCheckFailedError"
"""Dagster's error of a failed blocking check. It is not reported: the check's result already fails the launching step."""


@dataclass(frozen=True)
class Task:
    """The work of the child process.

    Attributes:
        module: the module that has the definitions as `defs`.
        selection: its tables and checks, in Dagster's serialisation.
        run_config: config of the op that writes the tables.
        tags: tags of the run.
        before: the last materialization of each table, in Dagster's serialisation.
        alive: a file that is locked until the launching process ends or interrupts the work.
    """

    module: str
    selection: str
    run_config: Mapping[str, Any]
    tags: Mapping[str, str]
    before: Sequence[str]
    alive: str


def main() -> None:
    """Execute the task in the Pipes context; exit with code 1 if it fails."""
    keep_files_private()
    with open_dagster_pipes() as pipes:
        task = Task(**pipes.extras)
        Thread(target=_end_with, args=(Path(task.alive),), name="end-with-the-run", daemon=True).start()
        error = _execute(task, pipes)
        if error is None:
            return
        pipes.report_custom_message({FAILURE: _words(error)})
        pipes.close(_as_exception(error))
    sys.exit(1)


def _execute(task: Task, pipes: PipesContext) -> SerializableErrorInfo | None:
    """Execute the task and report its events; return its error, if any."""
    definitions: dg.Definitions = import_module(task.module).defs
    selection: Any = dg.deserialize_value(task.selection)
    wanted = dg.define_asset_job(_JOB, selection)
    job = dg.Definitions.merge(definitions, dg.Definitions(jobs=[wanted])).resolve_job_def(_JOB)
    # Events are reported by Pipes, so the console stays silent.
    silent = {"console": {"config": {"log_level": "CRITICAL"}}}
    with dg.DagsterInstance.ephemeral() as instance:
        for text in task.before:
            instance.report_runless_asset_event(dg.deserialize_value(text, dg.AssetMaterialization))
        # Added only now, so that the earlier materializations are not reported.
        instance.add_event_listener(pipes.run_id, lambda entry, *_: _report(entry, pipes))
        done = job.execute_in_process(
            run_config={**task.run_config, "loggers": silent},
            instance=instance,
            run_id=pipes.run_id,
            tags=task.tags,
            raise_on_error=False,
        )
    errors = (getattr(event.event_specific_data, "error", None) for event in done.all_events if event.is_failure)
    return next((error for error in errors if error is not None and error.cls_name != _BLOCKED), None)


def _report(entry: dg.EventLogEntry, pipes: PipesContext) -> None:
    event = entry.dagster_event
    if event is None:
        level = entry.level if isinstance(entry.level, int) else logging.getLevelNamesMapping()[entry.level.upper()]
        pipes.log.log(level, _without_secrets(entry.user_message))
    elif event.is_step_materialization:
        pipes.report_custom_message(dg.serialize_value(event.step_materialization_data.materialization))
    elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
        pipes.report_custom_message(dg.serialize_value(event.asset_check_evaluation_data))
    elif event.is_asset_observation:
        pipes.report_custom_message(dg.serialize_value(event.asset_observation_data.asset_observation))


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
    """Interrupt this process when the file is no longer locked, and kill it after a while."""
    while is_locked(alive):
        time.sleep(_LOOKS_EVERY)
    # Python cancels Spark's work and stops Spark, which ends Java.
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE_SECONDS)
    # The launching process has put this process and its Java into one group.
    os.killpg(os.getpgid(0), signal.SIGKILL)
