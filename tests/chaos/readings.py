"""Kills amid readings: what readers of all tables and of state see while runs are killed."""

import math
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.launcher import Command, Launcher, Run
from tests.chaos.story import TO_THE_END, WORK, Homes, expected, found, land
from tests.chaos.tally import Rows, Tally

KILLS_A_HOME = 10
JAVA_ENDED = "Spark's Java process has ended"


def kill_amid_readings(
    launcher: Launcher,
    homes: Homes,
    told: Tally,
    kills: int,
    strike: Callable[[Run, int], None] = lambda run, _: run.signal(signal.SIGKILL),
    *,
    seed: int = 2033,
    pause: float = 0,
    longest: float = math.inf,
) -> None:
    """Kill runs and state moves at random, some on a home, and see what readers read meanwhile.

    Args:
        launcher, homes: of the runs.
        told: what counts.
        kills: how many.
        strike: kills a run; given which one it is.
        seed: of the moments.
        pause: seconds between two readings.
        longest: seconds that a run lives at most.
    """
    moments, began = random.Random(seed), time.monotonic()
    launcher.run(homes.copy(homes.running), *WORK, moved_to(5))
    life = min(time.monotonic() - began, longest)
    for first in range(0, kills, KILLS_A_HOME):
        home, came = homes.copy(homes.running), list[bool]()
        with reading(home, pause) as readings:
            for number in range(min(KILLS_A_HOME, kills - first)):
                land(home, 4 + number, 1)
                commands = [*WORK, moved_to(moments.choice((4, 5, 7, 9)))]
                # A short life is to come to each of them.
                moments.shuffle(commands)
                run = launcher.start(home, attempts=commands)
                time.sleep(moments.uniform(0.02, life))
                strike(run, first + number)
                came.append(run.wait() == -signal.SIGKILL or JAVA_ENDED in run.said)
            code, run = launcher.run(home, *TO_THE_END)
            assert code == 0, run.said
        assert len(readings) > 1
        for one in came:
            told.count(expected(home), found(home), f"kills from {first}", came=one)
        print(f"{dict(told.counts)}; {len(readings)} readings")
        for before, after in zip(readings, [*readings[1:], found(home)], strict=True):
            assert not contradictions(before, after)
        shutil.rmtree(home)


def moved_to(key_groups: int) -> Command:
    return ("state", "move", "windows", "--param", f"key_groups={key_groups}", "--yes")


@contextmanager
def reading(home: Path, pause: float = 0) -> Iterator[list[Rows]]:
    """Read all tables again and again in a thread; gives what was read. A reading that fails fails the block.

    Args:
        home: the lakehouse.
        pause: seconds between two readings.
    """
    readings: list[Rows] = []
    failures: list[Exception] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                readings.append(found(home))
                stop.wait(pause)
        except Exception as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield readings
    finally:
        stop.set()
        reader.join()
    if failures:
        raise failures[0]


def contradictions(before: Rows, after: Rows) -> Rows:
    """What an earlier reading has and a later one lacks, and rows of the updated table that one reading has twice."""
    of_users: Counter[str] = Counter(user for table, user, _ in keyed(after) if table == "totals")
    twice = Counter({("totals", user): count for user, count in of_users.items() if count > 1})
    return twice + (grown(before) - grown(after))


def keyed(rows: Rows) -> Iterator[tuple]:
    return (row for row in rows.elements() if len(row) == 3)


def grown(rows: Rows) -> Rows:
    """Rows with those of `totals`, which are updated, as so many clicks."""
    sums: Rows = Counter()
    for row, count in rows.items():
        sums[row[:2] if row[0] == "totals" else row] += count * (row[2] if row[0] == "totals" else 1)
    return sums
