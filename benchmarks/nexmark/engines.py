"""Run engines in their own processes, and measure the cost of each command over all processes of the engine."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from benchmarks.usage import PeakMemory, processor_seconds

FLINK = "apache-flink==2.3.0"
MOST_SECONDS = 180
"""Time after which a run is stopped."""

_MARK = "#reply "


@dataclass(frozen=True)
class Cost:
    """The cost of a run: wall and processor seconds, peak bytes of memory, bytes of state; or the reason why it failed."""

    seconds: float
    processor: float
    peak_bytes: int
    state_bytes: int
    error: str = ""


class Engine:
    """A process that executes commands, and the processes that it starts.

    Attributes:
        is_warm: set by the caller when the process has executed a command before.
    """

    def __init__(self, command: list[str], log: Path) -> None:
        self._command, self._log = command, log
        self._process: Popen[str] | None = None
        self._replies: queue.Queue[str] = queue.Queue()
        self.is_warm = False

    def ask(self, state: Callable[[], int] | None = None, **command: Any) -> Cost:
        """Send a command and wait for its reply.

        Args:
            state: measures the size of the state while the command runs, for an engine whose reply does not have it.
            command: the command.
        """
        process = self._process or self._start()
        memory, state_bytes = PeakMemory(process.pid), 0
        before, began = processor_seconds(process.pid), time.monotonic()
        memory.start()
        assert process.stdin  # noqa: S101 - it is a pipe
        process.stdin.write(json.dumps(command) + "\n")
        process.stdin.flush()
        reply: dict[str, Any] = {"error": f"no answer within {MOST_SECONDS} s"}
        while time.monotonic() - began < MOST_SECONDS:
            with contextlib.suppress(queue.Empty):
                reply = json.loads(self._replies.get(timeout=0.3))
                break
            state_bytes = max(state_bytes, state() if state else 0)
        seconds, processor = time.monotonic() - began, processor_seconds(process.pid) - before
        error = str(reply.get("error", ""))
        cost = Cost(seconds, processor, memory.stop(), int(reply.get("state_bytes", state_bytes)), error)
        if error:
            self.end()
        return cost

    def end(self) -> None:
        """End the process; the next command starts another."""
        process, self._process, self.is_warm = self._process, None, False
        if process is None:
            return
        assert process.stdin  # noqa: S101 - it is a pipe
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            # It is the leader of its process group, which includes Java.
            os.killpg(process.pid, 9)
            process.wait()

    def _start(self) -> Popen[str]:
        with self._log.open("a") as log:
            process = Popen(self._command, stdin=PIPE, stdout=PIPE, stderr=log, text=True, start_new_session=True)
        self._process, self._replies = process, (replies := queue.Queue())

        def listen() -> None:
            for line in process.stdout or ():
                if line.startswith(_MARK):
                    replies.put(line.removeprefix(_MARK))
            replies.put(json.dumps({"error": f"the process ended; see {self._log}"}))

        threading.Thread(target=listen, daemon=True).start()
        return process


def folder_bytes(folder: Path) -> int:
    """Return the size of all files in a folder; files and folders that vanish meanwhile are left out."""
    total = 0
    # Not `rglob`, which fails if a folder vanishes while it is listed.
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(parent, name).stat().st_size
    return total


def spark_engine(folder: Path) -> Engine:
    """Return an engine with a Spark session, for Keyfold or stock Spark."""
    return Engine([sys.executable, "-m", "benchmarks.nexmark.spark_worker"], folder / "spark.log")


def flink_engine(folder: Path) -> Engine:
    """Return an engine with Flink; creates its environment `.venv-flink` if it does not exist."""
    environment = Path(".venv-flink").absolute()
    python, uv = environment / "bin" / "python", Path(sys.executable).with_name("uv")
    if not python.exists():
        subprocess.run([uv, "venv", "-q", "--python", "3.11", environment], check=True)
    if subprocess.run([python, "-c", "import pyflink"], check=False, stderr=subprocess.DEVNULL).returncode:
        subprocess.run([uv, "pip", "install", "-q", "--python", python, FLINK], check=True)
    worker = Path(__file__).with_name("flink_worker.py")
    return Engine([str(python), "-P", str(worker)], folder / "flink.log")
