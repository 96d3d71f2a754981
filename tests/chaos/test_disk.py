"""A disk that is full, or fails, at any write: at the calls of the system, and as a real disk that is full."""

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.conftest import TRIES
from tests.chaos.launcher import COUNTED, Launcher, Writes
from tests.chaos.scenes import SCENES, Scene
from tests.chaos.small_disks import fill, is_said, mounted
from tests.chaos.story import INGEST, TO_THE_END, WORK, Homes

PROMISE = "A disk that is full, or fails, ends a run with one message; the next one goes on where it was."

FAULTS = {
    "the disk is full (ENOSPC)": (errno.ENOSPC, True),
    "one write fails (EIO)": (errno.EIO, False),
    "every write fails from one on (EIO)": (errno.EIO, True),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("name", "tries"),
    [
        pytest.param("runs", 1),
        *(pytest.param(name, TRIES, marks=pytest.mark.chaos) for name in SCENES),
    ],
)
def test_a_write_that_fails_is_told_and_made_good(
    launcher: Launcher, homes: Homes, tally, name: str, tries: int, fault: str
):
    scene, told, (failure, for_good) = SCENES[name], tally(fault), FAULTS[fault]
    home = scene.home(homes)
    _, run = launcher.run(home, *scene.commands, writes=Writes(home, COUNTED))
    for number in sorted(random.Random(name + fault).sample(range(1, run.writes + 1), min(tries, run.writes))):
        home = scene.home(homes)
        code, run = launcher.run(home, *scene.commands, writes=Writes(home, failure, number, for_good))
        is_said(run, code, os.strerror(failure))
        scene.mend(launcher, home)
        scene.count(told, home, f"{name}, {fault} at write {number}")


@pytest.mark.parametrize("tries", [2, pytest.param(3 * TRIES, marks=pytest.mark.chaos)])
def test_a_real_disk_that_is_full_is_told_and_made_good(
    launcher: Launcher, homes: Homes, tally, small_disk: Path, tries: int
):
    told, room = tally("a real disk is full"), random.Random(2029)
    scene = Scene(WORK)
    for index in range(tries):
        home = shutil.copytree(homes.running, small_disk / f"home-{index}", symlinks=True)
        with fill(small_disk, room.randrange(4, 120)):
            code, run = launcher.run(home, *scene.commands)
        is_said(run, code, os.strerror(errno.ENOSPC))
        launcher.run(home, INGEST)
        code_after, run = launcher.run(home, *TO_THE_END)
        assert code_after == 0, run.said
        scene.count(told, home, f"try {index}", came=code != 0)
        shutil.rmtree(home)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path, megabytes=8) as disk:
        yield disk
