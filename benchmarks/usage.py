"""Measure processor seconds, memory and bytes written of a process and all its children, by role, from /proc."""

import os
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

_EVERY_SECONDS = 0.25


def role(process: int, root: int) -> str:
    """The role of a process: the driver, its Java, or a Python worker."""
    if process == root:
        return "driver"
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return "gone"
    return "java" if command.split(b"\0")[0].endswith(b"java") else "workers"


def processor_seconds(root: int) -> float:
    """Processor seconds of all roles, also of ended children; other programs do not count."""
    return sum(processor_seconds_of(root).values())


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


class PeakMemory(threading.Thread):
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

    def stop(self) -> Counter[str]:
        """Stop sampling, and return the peaks in bytes, by role and of `all`."""
        self._done.set()
        self.join()
        return self.peaks


def memory(root: int) -> int:
    """Bytes that a process and its children use now. Memory shared by forked workers counts once."""
    return sum(map(set_size, family(root)))


def seconds_of(process: int) -> float:
    """What one process, and its children that have ended, have used of the processors; 0 of one that is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def family(root: int) -> set[int]:
    """A process and its descendants, as long as their parents live."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(stat.parent.name))
    family, waiting = set(), [root]
    while waiting:
        process = waiting.pop()
        family.add(process)
        waiting += children[process]
    return family


def set_size(process: int) -> int:
    """Bytes of a process's memory, with its share of shared memory; 0 if it has ended."""
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
