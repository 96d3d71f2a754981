"""Launch a step's child process, pass on its output and reports, and end it with the run."""

import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO, Any

import dagster as dg
from dagster_pipes import PipesContextData

from keyfold.dagster.submitted.messages import Result, reported_failure, reported_process, reported_results
from keyfold.dagster.submitted.setting import IN_PROCESS, RUNS_VARIABLE
from keyfold.machine.locks import open_lock, take
from keyfold.session import SparkSettings
from keyfold.session.java_output import explained
from keyfold.session.redaction import without_secrets
from keyfold.session.scratch import new_scratch, scratch_of_java
from keyfold.session.settings import spark_conf
from keyfold.session.submitting import submit_command

GRACE_SECONDS = 25.0
"""How long an interrupted process may take to end before it is killed."""

PROGRAM = "from keyfold.dagster.submitted.child import main\n\nmain()\n"
_LOOKS_EVERY = 0.2
_LAST_LINES = 200


@dataclass(frozen=True)
class Launch:
    """A child process to launch.

    Attributes:
        command: the command with its arguments.
        settings: Spark's settings; their secrets are removed from all output.
        environment: variables to add to this process's own.
    """

    command: Sequence[str]
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict)


Launcher = Callable[[Path], Launch]
"""Builds the launch; gets a folder that only this user can read, and that exists until the process has ended."""


def spark_submit_launcher(settings: Callable[[], SparkSettings]) -> Launcher:
    """Return a launcher that uses spark-submit.

    Args:
        settings: returns the session's settings; called when a step begins, which is when secrets are read.
    """

    def launch(folder: Path) -> Launch:
        given = settings()
        environment = {
            # Without this, spark-submit runs the driver with the first Python on PATH.
            "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable,
            # The child must execute the definitions itself, not launch another process.
            RUNS_VARIABLE: IN_PROCESS,
            "KEYFOLD_WARM_SPARK": "",
        }
        return Launch(submit_command(given, PROGRAM, [], folder), spark_conf(given), environment)

    return launch


def run_child(context: dg.AssetExecutionContext, launcher: Launcher, extras: Mapping[str, Any]) -> Iterator[Result]:
    """Launch a process and give what it reports, as it reports it; its output goes to this step's output.

    Args:
        context: of the step.
        launcher: says what to launch.
        extras: what the process is to do (`child.Task`).

    Raises:
        Failure: the process failed. The message is the process's own, or the end of its output if it sent none.
    """
    with _folder() as (folder, alive), _session(context, {**extras, "alive": str(alive)}) as session:
        launch = launcher(folder)
        given = 0
        with _launched(launch, session) as child:
            while not child.has_ended(_LOOKS_EVERY):
                seen = reported_results(session)
                yield from seen[given:]
                given = len(seen)
    # What it said last is read when the session is closed.
    yield from reported_results(session)[given:]
    words = reported_failure(session)
    if words is None and child.code != 0:
        words = child.last_words(opened=reported_process(session) is not None)
    if words is not None:
        raise dg.Failure(without_secrets(words, launch.settings))


@contextmanager
def _folder() -> Iterator[tuple[Path, Path]]:
    """Create a private folder with a file that is locked as long as the step and this process live."""
    folder = new_scratch()
    # The child ends when this file is no longer locked.
    lock = open_lock(folder / "alive")
    try:
        take(lock)
        yield folder, folder / "alive"
    finally:
        os.close(lock)
        # The folder contains settings, which may be secret.
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


class _Child:
    """A process in its own group. Its output is passed on without secrets, and its last lines are kept."""

    def __init__(self, launch: Launch, environment: Mapping[str, str]) -> None:
        self._settings = launch.settings
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        with scratch_of_java(launch.settings):
            self._process = subprocess.Popen(
                launch.command,
                env={**os.environ, "PYTHONPATH": _import_path(), **launch.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A signal to this run's group must not reach Java: it would stop Spark during the work.
                start_new_session=True,
            )
        pipes = ((self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr))
        self._threads = [Thread(target=self._pass_on, args=pipe, name="output", daemon=True) for pipe in pipes]
        for thread in self._threads:
            thread.start()

    @property
    def code(self) -> int:
        return self._process.returncode

    def has_ended(self, within: float) -> bool:
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        for thread in self._threads:
            # Not for ever: a process of its own may have inherited the pipe.
            thread.join(timeout=5)
        return True

    def end(self, worker: int | None) -> None:
        """Interrupt the work, and kill what is left after a while."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                if worker is None:
                    os.killpg(self._process.pid, signal.SIGTERM)
                else:
                    # Only Python: it cancels Spark's work and stops Spark, which ends Java.
                    os.kill(worker, signal.SIGINT)
            self.has_ended(GRACE_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self, *, opened: bool) -> str:
        """Describe how the process ended, with its last lines of output."""
        lines = list(self._lines)
        if not opened:
            return explained(lines)
        how = f"was killed (signal {-self.code})" if self.code < 0 else f"ended with code {self.code}"
        last = "\n".join(line for line in lines[-15:] if line.strip()) or "(none)"
        return f"the run's child process {how} before it had finished. Its last output:\n{last}"

    def _pass_on(self, pipe: IO[bytes], to: IO[str]) -> None:
        for line in pipe:
            text = without_secrets(line.decode(errors="replace"), self._settings)
            self._lines.append(text.rstrip())
            to.write(text)
            to.flush()


@contextmanager
def _launched(launch: Launch, session: dg.PipesSession) -> Iterator[_Child]:
    child = _Child(launch, session.get_bootstrap_env_vars())
    try:
        yield child
    finally:
        child.end(reported_process(session))


def _import_path() -> str:
    """Return the import path of this process outside of its installation, such as a code location's folder."""
    own = [os.path.abspath(path) for path in sys.path if not path.startswith((sys.prefix, sys.base_prefix))]
    return os.pathsep.join(own)
