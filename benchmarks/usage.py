"""Measure processor seconds and memory of a process and all its children, from /proc."""

import os
import threading
import time
from collections import defaultdict
from pathlib import Path

_EVERY_SECONDS = 0.25


def processor_seconds(root: int) -> float:
    """Processor seconds of a process and its children, also of ended ones; other programs do not count."""
    return sum(map(_seconds_of, _family(root)))


class PeakMemory(threading.Thread):
    """Samples the memory of a process and its children, and keeps the peak. Memory shared by forked workers counts once."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root, self._done, self._peak = root, threading.Event(), 0
        self.seconds = 0.0
        """Processor seconds of the sampling itself, to be subtracted."""

    def run(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            self._peak = max(self._peak, sum(map(_set_size, _family(self._root))))
            self.seconds = time.thread_time()

    def stop(self) -> int:
        """Stop sampling, and return the peak in bytes."""
        self._done.set()
        self.join()
        return self._peak


def _seconds_of(process: int) -> float:
    """What one process, and its children that have ended, have used of the processors; 0 of one that is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _family(root: int) -> set[int]:
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


def _set_size(process: int) -> int:
    """Bytes of a process's memory, with its share of shared memory; 0 if it has ended."""
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
