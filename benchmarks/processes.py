"""Run commands of Keyfold in processes of their own, as they are shipped, until they are stopped."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_KEYFOLD = Path(sys.executable).parent / "keyfold"
_PATIENCE = 180.0


class Processes:
    """Commands that run until they are stopped.

    Args:
        folder: the folder for their logs.
        environment: their environment variables.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, dict(environment)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pids(self) -> dict[str, int]:
        """By name."""
        return {name: process.pid for name, process in self._running.items()}

    def start(self, name: str, *command: str) -> None:
        """Start `keyfold COMMAND`."""
        with open(self._folder / f"{name}.log", "wb") as log:
            self._running[name] = subprocess.Popen(
                [str(_KEYFOLD), *command], stdout=log, stderr=subprocess.STDOUT, env=self._environment
            )

    def wait(self, is_so: Callable[[], bool], patience: float = _PATIENCE) -> None:
        """Wait for a condition. If it takes longer than `patience` seconds, stop the benchmark."""
        end = time.monotonic() + patience
        while not is_so():
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise SystemExit(f"{name} has ended: {(self._folder / f'{name}.log').read_text()[-2000:]}")
            if time.monotonic() > end:
                raise SystemExit("it did not come to that")
            time.sleep(0.1)

    def end(self) -> None:
        """Stop all processes, and check that they end."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self._running.items():
            print(f"{name} ended with {process.wait(120)}")
