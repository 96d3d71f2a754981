"""Measure processor seconds, memory and bytes written of a process and all its children, by role, from /proc."""

import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.memory import family, seconds_of, set_size

_EVERY_SECONDS = 1.0


def role(process: int, root: int) -> str:
    """The role of a process: the driver, Java (of the driver, an executor or a daemon), or a Python worker."""
    if process == root:
        return "driver"
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return "gone"
    if not command.split(b"\0")[0].endswith(b"java"):
        return "workers"
    if b"CoarseGrainedExecutorBackend" in command:
        return "executors"
    return "daemons" if b"org.apache.spark.deploy.master" in command or b"deploy.worker" in command else "java"


def processor_seconds_of(root: int) -> dict[str, float]:
    """Processor seconds by role, also of ended children."""
    used: defaultdict[str, float] = defaultdict(float)
    for process in family(root):
        used[role(process, root)] += seconds_of(process)
    return used


def bytes_written(root: int) -> int:
    """Bytes that a process and its children have passed to the kernel for writing."""
    total = 0
    for process in family(root):
        try:
            lines = Path(f"/proc/{process}/io").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))
    return total


class PeakByRole(threading.Thread):
    """Samples memory by role, and keeps the peaks. Proportional set sizes count memory shared by forked workers once."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root, self._done = root, threading.Event()
        self.peaks: Counter[str] = Counter()
        self.seconds = 0.0
        """Processor seconds of the sampling itself, to be subtracted."""

    def run(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            now: Counter[str] = Counter()
            for process in family(self._root):
                now[role(process, self._root)] += set_size(process)
            now["all"] = sum(now.values())
            for name, size in now.items():
                self.peaks[name] = max(self.peaks[name], size)
            self.seconds = time.thread_time()

    def stop(self) -> dict[str, int]:
        """Stop sampling, and return the peaks in bytes."""
        self._done.set()
        self.join()
        return dict(self.peaks)
