"""Power that fails at any named point of a command that makes a generation: the old one is live, or the new one is, whole.

The points are found by running the command once, so that a new one is tested by being there. Without Spark.
"""

import pytest

from keyfold.keyed.generation.run_mode import Incremental, Replay
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.state.changing.moving import move
from keyfold.state.changing.promoting import promote
from keyfold.state.making.seeding import SeedSource, seed_job
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.local_state import copied, land, live, tables
from tests.power_cuts import points_of

MOVED = windows(key_groups=9)
DECIDED = {"generation: live", "going live: files linked", "going live: table replaced", "going live: one job"}
"""Points after the decision that a generation is live. The next run finishes its tables."""


def seed(without_spark, lakehouse):
    path = lakehouse.home.parent / "seed.jsonl"
    path.write_text(
        '{"user": "zoe", "window": "2026-01-01T00:20:00Z", "clicks": 5, "deadline": "2026-01-01T00:30:00Z"}'
    )
    seed_job(lakehouse, windows(), SeedSource(str(path)), yes=True, runners=without_spark)


WRITERS = {
    "seed": (seed, windows()),
    "move": (lambda without_spark, lakehouse: move(lakehouse, MOVED, yes=True, runners=without_spark), MOVED),
    "promote": (lambda without_spark, lakehouse: promote(lakehouse, "windows", "again"), windows()),
}


@pytest.fixture
def ran(without_spark, tmp_path):
    """A lakehouse with a live generation of two batches, a branch, and a click that is still to be read."""
    lakehouse = Lakehouse(tmp_path / "ran")
    land(lakehouse, ("ann", 1), ("bob", 2), ("cat", 22))
    run_job(lakehouse, windows(), runners=without_spark)
    land(lakehouse, ("ann", 3), ("cat", 23), ("bob", 24))
    run_job(lakehouse, windows(), runners=without_spark)
    run_job(lakehouse, windows(), Replay("again"), runners=without_spark)
    land(lakehouse, ("dan", 25))
    return lakehouse


def after(name):
    """The generation that comes after one."""
    return f"generation-{int(name.partition('-')[2]) + 1:04d}"


# Those that make a generation share most points: each of the two is cut at every other one.
@pytest.mark.parametrize(
    ("write", "job", "points_tried"),
    [
        pytest.param(*WRITERS["seed"], slice(0, None, 2), id="seed"),
        pytest.param(*WRITERS["move"], slice(1, None, 2), id="move"),
        pytest.param(*WRITERS["promote"], slice(None), id="promote"),
    ],
)
def test_wherever_the_power_fails_what_is_live_is_whole_and_the_command_can_be_called_again(
    without_spark, ran, minutes, monkeypatch, cut_power, write, job, points_tried
):
    uncut, old = copied(ran, "uncut"), copied(ran, "old")
    points = points_of(monkeypatch, lambda: write(without_spark, uncut))
    assert ("generation: before it goes live", 1) in points
    name = live(uncut).name
    to_the_end = Incremental(advance_to=minutes(90))
    for lakehouse, one in ((uncut, job), (old, windows())):
        run_job(lakehouse, one, to_the_end, runners=without_spark)
    for number, (point, count) in list(enumerate(points))[points_tried]:
        killed = copied(ran, f"killed-{number}")
        before = tables(killed)
        assert cut_power(point, lambda lakehouse=killed: write(without_spark, lakehouse), count)
        if point in DECIDED:
            assert live(killed).name == name
        else:
            assert (live(killed).record, tables(killed)) == (live(ran).record, before)
            also = copied(killed, f"also-{number}")
            run_job(also, windows(), to_the_end, runners=without_spark)
            assert tables(also) == tables(old), f"goes on after {point} {count}"
            last = max(folder.name for folder in killed.job("windows").glob("generation-*"))
            is_renamed = not (killed.job("windows") / "branches" / "again").exists()
            write(without_spark, killed)
            # A branch that was renamed is what is promoted; else the number of a dead one is not given again.
            assert live(killed).name == (last if is_renamed else after(last)), f"called again after {point} {count}"
        run_job(killed, job, to_the_end, runners=without_spark)
        assert tables(killed) == tables(uncut), f"called again after {point} {count}"
