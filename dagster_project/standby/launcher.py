"""The run launcher: hands a run to the process that stands by, or starts one as Dagster does."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock, Thread, Timer
from typing import Any, Self

import dagster as dg
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, ManagedGrpcPythonEnvCodeLocationOrigin
from dagster._core.storage.dagster_run import DagsterRun
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import ConfigurableClassData

from dagster_project.automation.run_liveness import WatchedRunLauncher
from dagster_project.standby.lock import holder, wait_for_holder
from dagster_project.standby.process import READY
from spark_jobs.session.code_state import code_state

_PATIENCE = 5
"""Seconds in which a process that was given a run takes its lock."""

_PROJECT = Path(__file__).parents[2]
_PACKAGES = [_PROJECT / name for name in ("dagster_project", "assets", "expectations", "spark_jobs")]


class StandbyRunLauncher(WatchedRunLauncher):
    """Keeps one process ready, from the first run on, in whatever process launches runs (Dagster's daemon).

    The next one is made `delay_seconds` after the last was given away, so as not to take the processor from that run.
    A run whose process has died is marked as failed by Dagster's run monitoring, which frees its pools.
    """

    def __init__(
        self,
        module: str = "dagster_project.definitions",
        delay_seconds: float = 20,
        inst_data: ConfigurableClassData | None = None,
    ) -> None:
        super().__init__(inst_data)
        self._module, self._delay = module, delay_seconds
        self._lock = Lock()
        self._ready: _Standby | None = None
        self._folder: str | None = None
        self._timer: Timer | None = None

    @classmethod
    def config_type(cls) -> Any:
        return {
            "module": dg.Field(str, is_required=False, description="The module of definitions to load"),
            "delay_seconds": dg.Field(
                float, is_required=False, description="How long after a run's start the next process is made"
            ),
        }

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> Self:
        return cls(inst_data=inst_data, **config_value)

    def launch_run(self, context: LaunchRunContext) -> None:
        pointer = self._pointer_to_ours(context)
        if pointer is None:
            super().launch_run(context)
            return
        if pointer.working_directory != self._folder or not self._hand_over(context):
            super().launch_run(context)
        self._folder = pointer.working_directory
        self._prepare_later()

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished or not self._lock_of(run_id).exists():
            return super().terminate(run_id)
        self._instance.report_run_canceling(run)
        process = wait_for_holder(self._lock_of(run_id), _PATIENCE)
        if process is None:
            return False
        os.kill(process, signal.SIGTERM)
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        if not self._lock_of(run.run_id).exists():
            return super().check_run_worker_health(run)
        process = holder(self._lock_of(run.run_id))
        if process is None:
            return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "its process has ended without a word")
        return CheckRunHealthResult(WorkerStatus.RUNNING, f"process {process}")

    def dispose(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._ready is not None:
                self._ready.end()
                self._ready = None
        super().dispose()

    def prepare(self) -> None:
        """Start a process that loads the definitions, unless there is one."""
        with self._lock:
            if self._ready is None or not self._ready.fits(self._folder):
                if self._ready is not None:
                    self._ready.end()
                self._ready = _Standby(self._module, self._folder)

    def _prepare_later(self) -> None:
        with self._lock:
            if self._timer is not None and self._timer.is_alive():
                return
            self._timer = Timer(self._delay, self.prepare)
            self._timer.daemon = True
            self._timer.start()

    def _hand_over(self, context: LaunchRunContext) -> bool:
        """Give the run to the process that stands by, if there is one that it fits."""
        run, origin = context.dagster_run, context.job_code_origin
        standby = self._take_ready()
        if standby is None or origin is None:
            return False
        self._instance.report_engine_event(f"Handed to process {standby.number}, which stood by", run)
        command = ExecuteRunArgs(origin, run.run_id, self._instance.get_ref()).get_command_args()
        return standby.take([*command[command.index("api") :]], self._lock_of(run.run_id))

    def _take_ready(self) -> "_Standby | None":
        with self._lock:
            standby = self._ready
            if standby is None or not standby.is_ready():
                return None
            self._ready = None
        if standby.fits(self._folder):
            return standby
        standby.end()
        return None

    def _pointer_to_ours(self, context: LaunchRunContext) -> ModuleCodePointer | None:
        """Where the run's definitions are, if a process of ours would load and run the same as the code server's."""
        run, origin = context.dagster_run, context.job_code_origin
        if origin is None or run.remote_job_origin is None:
            return None
        server = run.remote_job_origin.repository_origin.code_location_origin
        # A server that listens on a port may be another machine's, with an environment of its own.
        is_here = isinstance(server, ManagedGrpcPythonEnvCodeLocationOrigin) or (
            isinstance(server, GrpcServerCodeLocationOrigin) and server.socket is not None
        )
        repository = origin.repository_origin
        same_python = repository.executable_path == sys.executable and repository.container_image is None
        pointer = repository.code_pointer
        if not (is_here and same_python and isinstance(pointer, ModuleCodePointer)):
            return None
        return pointer if pointer.module == self._module else None

    def _lock_of(self, run_id: str) -> Path:
        return Path(self._instance.root_directory) / "standby" / run_id


class _Standby:
    """A process that loads the definitions, or has."""

    def __init__(self, module: str, folder: str | None) -> None:
        self._folder = folder
        self._code = code_state(_PACKAGES)
        self._is_ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dagster_project.standby.process", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            text=True,
        )
        # Reaped when it ends, whenever that is.
        Thread(target=self._process.wait, name="standby", daemon=True).start()

    @property
    def number(self) -> int:
        return self._process.pid

    def fits(self, folder: str | None) -> bool:
        """Whether it lives, works in this folder, and the code is what it was when it loaded it."""
        return self._process.poll() is None and self._folder == folder and code_state(_PACKAGES) == self._code

    def is_ready(self) -> bool:
        """Whether it has loaded everything."""
        told = self._process.stdout
        assert told is not None  # noqa: S101 - narrows Popen's type
        if not self._is_ready and select.select([told], [], [], 0)[0]:
            self._is_ready = told.readline().strip() == READY
        return self._is_ready

    def take(self, arguments: list[str], lock: Path) -> bool:
        """Give it its run; false where it has died meanwhile."""
        orders = self._process.stdin
        assert orders is not None  # noqa: S101 - narrows Popen's type
        lock.parent.mkdir(exist_ok=True)
        lock.touch()
        try:
            orders.write(json.dumps({"arguments": arguments, "lock": str(lock)}) + "\n")
            orders.close()
        except OSError:
            lock.unlink()
            return False
        return True

    def end(self) -> None:
        """Let it go, unused."""
        self._process.kill()
