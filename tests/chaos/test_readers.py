"""Runs and state moves killed at random, one after the other on a home, while readers read its tables."""

import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.conftest import TRIES
from tests.chaos.launcher import Command, Launcher
from tests.chaos.story import TO_THE_END, WORK, Homes, expected, found, land
from tests.chaos.tally import Rows

PROMISE = "A reader of a table sees each committed row once and for good, while runs and state moves are killed."

KILLS_A_HOME = 10


@pytest.mark.parametrize("kills", [3, pytest.param(20 * TRIES, marks=pytest.mark.chaos)])
def test_readers_see_each_row_once_while_runs_and_moves_are_killed(launcher: Launcher, homes: Homes, tally, kills: int):
    told, moments = tally("runs and state moves killed at random while readers read"), random.Random(2033)
    began = time.monotonic()
    launcher.run(homes.copy(homes.running), *WORK, moved_to(5))
    whole = time.monotonic() - began
    for first in range(0, kills, KILLS_A_HOME):
        home, codes = homes.copy(homes.running), []
        with reading(home) as readings:
            for number in range(min(KILLS_A_HOME, kills - first)):
                land(home, 4 + number, 1)
                move = moved_to(moments.choice((4, 5, 7, 9)))
                run = launcher.start(home, attempts=(move, *WORK) if number % 2 else (*WORK, move))
                time.sleep(moments.uniform(0.02, whole))
                run.signal(signal.SIGKILL)
                codes.append(run.wait())
            code, run = launcher.run(home, *TO_THE_END)
            assert code == 0, run.said
        assert len(readings) > 1
        for code in codes:
            told.count(expected(home), found(home), f"kills from {first}", came=code == -signal.SIGKILL)
        for before, after in zip(readings, [*readings[1:], found(home)], strict=True):
            assert not contradictions(before, after)
        shutil.rmtree(home)


def moved_to(key_groups: int) -> Command:
    return ("state", "move", "windows", "--param", f"key_groups={key_groups}")


@contextmanager
def reading(home: Path) -> Iterator[list[Rows]]:
    """Read all tables again and again in a thread; gives what was read. A reading that fails fails the block."""
    readings: list[Rows] = []
    failures: list[Exception] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                readings.append(found(home))
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
