"""Launch a step's child process, pass on its output and reports, and end it with the run."""

import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any

import dagster as dg
from dagster_pipes import PipesContextData

from keyfold.dagster.submitted.child import FAILURE
from keyfold.dagster.submitted.setting import IN_PROCESS, RUNS_VARIABLE
from keyfold.session import SparkSettings
from keyfold.session.java_output import explained
from keyfold.session.redaction import without_secrets
from keyfold.session.scratch import lock_of, new_scratch, scratch_of_java
from keyfold.session.settings import spark_conf

_PROGRAM = "from keyfold.dagster.submitted.child import main\n\nmain()\n"
_LOOKS_EVERY = 0.2
_LAST_LINES = 200
_GRACE_SECONDS = 25.0
"""How long an interrupted process may take to end before it is killed."""

Command = Callable[[SparkSettings, str, Sequence[str], Path], Sequence[str]]
"""Builds the command of a child process, as `keyfold.session.submitting.submit_command` does."""

Result = dg.MaterializeResult | dg.AssetCheckResult | dg.AssetObservation


def run_child(
    context: dg.AssetExecutionContext, settings: SparkSettings, task: Mapping[str, Any], command: Command
) -> Iterator[Result]:
    """Launch a process and give what it reports, as it reports it; its output goes to this step's output.

    Args:
        context: of the step.
        settings: of the process's Spark session; their secrets are removed from all output.
        task: fields of `child.Task`, all but `alive`.
        command: builds the command.

    Raises:
        Failure: the process failed. The message is the process's own, or the end of its output if it sent none.
    """
    conf, lines, given = spark_conf(settings), deque[str](maxlen=_LAST_LINES), 0
    with _folder() as folder, _session(context, {**task, "alive": str(lock_of(folder))}) as session:
        launch = command(settings, _PROGRAM, [], folder)
        with _launched(launch, folder, conf, session.get_bootstrap_env_vars(), lines) as process:
            while not _has_ended(process, _LOOKS_EVERY):
                results = _results(session)
                yield from results[given:]
                given = len(results)
    # What it reported last is read when the session is closed.
    yield from _results(session)[given:]
    words = next((said[FAILURE] for said in session.get_custom_messages() if isinstance(said, dict)), None)
    if words is None and process.returncode != 0:
        words = _last_words(process.returncode, list(lines), opened=session.message_handler.received_opened_message)
    if words is not None:
        raise dg.Failure(without_secrets(words, conf))


@contextmanager
def _folder() -> Iterator[Path]:
    """Create a private folder that this process keeps locked, and delete it: it contains settings, which may be secret."""
    folder = new_scratch()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _session(context: dg.AssetExecutionContext, extras: Mapping[str, Any]) -> Iterator[dg.PipesSession]:
    # Not open_pipes_session: with it the process would have to report each table, which a replay does not.
    context_data: PipesContextData = {
        "asset_keys": None,
        "code_version_by_asset_key": None,
        "provenance_by_asset_key": None,
        "partition_key": None,
        "partition_key_range": None,
        "partition_time_window": None,
        "run_id": context.run.run_id,
        "job_name": context.run.job_name,
        "retry_number": context.op_execution_context.retry_number,
        "extras": extras,
    }
    handler = dg.PipesMessageHandler(context, dg.PipesTempFileMessageReader())
    with dg.PipesTempFileContextInjector().inject_context(context_data) as where, handler.handle_messages() as reported:
        yield dg.PipesSession(context_data, handler, where, reported, context)


def _results(session: dg.PipesSession) -> list[Result]:
    """Return what was reported of tables so far, in its order."""
    return [_result(dg.deserialize_value(said)) for said in session.get_custom_messages() if isinstance(said, str)]


def _result(event: Any) -> Result:
    if isinstance(event, dg.AssetMaterialization):
        return dg.MaterializeResult(asset_key=event.asset_key, metadata=event.metadata)
    if isinstance(event, dg.AssetCheckEvaluation):
        return dg.AssetCheckResult(
            passed=event.passed,
            asset_key=event.asset_key,
            check_name=event.check_name,
            metadata=event.metadata,
            severity=event.severity,
            description=event.description,
        )
    return event


@contextmanager
def _launched(
    command: Sequence[str], folder: Path, conf: Mapping[str, str], pipes: Mapping[str, str], lines: deque[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the process in its own group, which ends with the context; its output is passed on, and added to the lines."""
    own = {
        # The child must execute the definitions itself, not launch another process.
        RUNS_VARIABLE: IN_PROCESS,
        "KEYFOLD_WARM_SPARK": "",
        "PYTHONPATH": _import_path(),
        # Without this, spark-submit runs the driver with the first Python on PATH.
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable,
    }
    with scratch_of_java(conf):
        process = subprocess.Popen(
            command,
            env={**os.environ, **own, **pipes},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A signal to this run's group must not reach Java: it would stop Spark during the work.
            start_new_session=True,
        )

    def pass_on(pipe: IO[bytes], to: IO[str]) -> None:
        for line in pipe:
            text = without_secrets(line.decode(errors="replace"), conf)
            lines.append(text.rstrip())
            to.write(text)
            to.flush()

    outputs = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    threads = [Thread(target=pass_on, args=pipe, name="output", daemon=True) for pipe in outputs]
    for thread in threads:
        thread.start()
    try:
        yield process
    finally:
        # With the folder goes its lock: a child that still works interrupts itself.
        shutil.rmtree(folder, ignore_errors=True)
        _has_ended(process, _GRACE_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for thread in threads:
            # Not for ever: a process that has left the group may have inherited the pipe.
            thread.join(timeout=5)


def _has_ended(process: subprocess.Popen[bytes], within: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(within)
    return process.returncode is not None


def _last_words(code: int, lines: list[str], *, opened: bool) -> str:
    """Describe how the process ended, with its last lines of output."""
    if not opened:
        return explained(lines)
    how = f"was killed (signal {-code})" if code < 0 else f"ended with code {code}"
    last = "\n".join(line for line in lines[-15:] if line.strip()) or "(none)"
    return f"the run's child process {how} before it had finished. Its last output:\n{last}"


def _import_path() -> str:
    """Return the import path of this process outside of its installation, such as a code location's folder."""
    own = [os.path.abspath(path) for path in sys.path if not path.startswith((sys.prefix, sys.base_prefix))]
    return os.pathsep.join(own)
