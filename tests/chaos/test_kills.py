"""KILL at every named point, and amid any write, of everything that writes to a lakehouse."""

import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from keyfold.lakehouse import fail_points
from tests.chaos.conftest import TRIES, in_short
from tests.chaos.launcher import COUNTED, KILLED, Launcher, Writes
from tests.chaos.scenes import SCENE_OF, SCENES
from tests.chaos.story import Homes

PROMISE = "A process may be killed at any moment: called again, it ends as if nothing had been."

POINTS = [point for point in fail_points.POINTS if not point.startswith("sink")]
"""Those of sinks are in `tests/keyfold.sinks.test_publisher.py`, and of several jobs in `tests/keyfold/runs/test_chains.py` too."""


@pytest.mark.parametrize("point", in_short(POINTS[::8], POINTS))
def test_a_process_that_is_killed_at_a_named_point_is_made_good_by_the_next(
    launcher: Launcher, homes: Homes, tally, point: str
):
    kill_at(launcher, homes, tally, SCENE_OF[point.partition(":")[0]], point, 1)


@pytest.mark.chaos
@pytest.mark.parametrize("name", SCENES)
def test_the_same_at_every_point_of_every_command_each_time_that_it_comes_there(
    launcher: Launcher, homes: Homes, tally, tmp_path: Path, name: str
):
    noted = tmp_path / "points"
    code, run = launcher.run(
        SCENES[name].home(homes),
        *SCENES[name].commands,
        hooks=["tests.chaos.local_keyfold:note_points"],
        environment={"KEYFOLD_POINTS": str(noted)},
    )
    assert code == 0, run.said
    points = Counter(noted.read_text().splitlines())
    assert points
    for point, times in points.items():
        for count in sorted({1, 2, times} & set(range(1, times + 1))):
            kill_at(launcher, homes, tally, name, point, count)


def kill_at(launcher: Launcher, homes: Homes, tally, name: str, point: str, count: int) -> None:
    scene, told = SCENES[name], tally(f"killed at {point!r}")
    home = scene.home(homes)
    code, run = launcher.run(home, *scene.commands, environment={fail_points.VARIABLE: f"{point}#{count}"})
    assert code == -signal.SIGKILL, f"{name} did not come to {point!r} {count} times: {run.said}"
    scene.mend(launcher, home)
    scene.count(told, home, f"{name}, killed at {point!r} #{count}")


@pytest.mark.parametrize(
    ("name", "tries"),
    [
        pytest.param("runs", 2),
        *(pytest.param(name, 2 * TRIES, marks=pytest.mark.chaos) for name in SCENES),
    ],
)
def test_a_process_that_is_killed_amid_any_write_is_made_good_by_the_next(
    launcher: Launcher, homes: Homes, tally, name: str, tries: int
):
    scene, told = SCENES[name], tally(f"killed amid a write: {name}")
    home = scene.home(homes)
    _, run = launcher.run(home, *scene.commands, writes=Writes(home, COUNTED))
    for number in sorted(random.Random(name).sample(range(1, run.writes + 1), min(tries, run.writes))):
        home = scene.home(homes)
        code, _ = launcher.run(home, *scene.commands, writes=Writes(home, KILLED, number))
        scene.mend(launcher, home)
        scene.count(told, home, f"{name}, killed amid write {number}", came=code == -signal.SIGKILL)
