"""Measure peak memory and processor time of a process and all its children (JVM, Python workers), from /proc."""

import os
import threading
from collections import defaultdict
from pathlib import Path

_EVERY_SECONDS = 0.25


class PeakMemory(threading.Thread):
    """Samples the sum of proportional set sizes, which counts memory shared by forked workers once."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._done = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            self.peak_bytes = max(self.peak_bytes, memory(self._root))

    def stop(self) -> int:
        """Stop sampling, and return the peak in bytes."""
        self._done.set()
        self.join()
        return self.peak_bytes


def memory(root: int) -> int:
    """Bytes that a process and its children use now. Memory shared by forked workers counts once."""
    return sum(map(set_size, family(root)))


def processor_seconds(root: int) -> float:
    """What they have used of the processors, children that have ended among them; of no matter who else is at work."""
    return sum(map(seconds_of, family(root)))


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
