"""Several at once: runs of the same and of different commands on one home, begun at the same moment."""

import random

import pytest

from tests.chaos.conftest import TRIES, in_short
from tests.chaos.launcher import Launcher
from tests.chaos.scenes import FULL_REFRESH
from tests.chaos.story import INGEST, TO_THE_END, TOTALS, WINDOWS, WORK, Homes, expected, found

PROMISE = "Whatever runs at once on one home: one does the work, others say that it is being done."

TOGETHER = {
    "the same runs, four times": (WORK,) * 4,
    "ingest, jobs, a full refresh and maintenance": (WORK, (INGEST,) * 3, FULL_REFRESH, (("maintain",),) * 3),
    "a rebuild, and runs": (((*INGEST, "--rebuild"),), WORK, (TOTALS, WINDOWS), (INGEST, INGEST)),
}


@pytest.mark.parametrize("name", in_short([*TOGETHER][1:2], TOGETHER))
@pytest.mark.parametrize("tries", [1, pytest.param(TRIES, marks=pytest.mark.chaos)])
def test_runs_at_once_do_the_work_once_and_the_others_say_so(
    launcher: Launcher, homes: Homes, tally, name: str, tries: int
):
    told = tally(f"at once: {name}")
    for number in range(tries):
        home = homes.copy(homes.running)
        # Commands that fail are gone on from, as schedules do: each is a run of its own.
        runs = [launcher.start(home, attempts=random.Random(number).sample(one, len(one))) for one in TOGETHER[name]]
        for run in runs:
            assert run.wait() == 0, run.said
            assert "Traceback" not in run.said, run.said
        refused = sum(run.said.count("is already running") for run in runs)
        code, run = launcher.run(home, *(FULL_REFRESH if "rebuild" in name else ()), *TO_THE_END)
        assert code == 0, run.said
        told.count(expected(home), found(home), f"{name}, try {number}", came=True, refused=refused > 0)
