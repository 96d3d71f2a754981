"""Code that was changed: between two runs, and while one had broken off."""

import signal

import pytest

from keyfold.lakehouse import fail_points
from tests.chaos.conftest import in_short
from tests.chaos.launcher import Launcher
from tests.chaos.remedies import work_through
from tests.chaos.story import TO_THE_END, WORK, Homes, expected, found

PROMISE = (
    "Code that was changed goes on where it can; where it cannot, a run says so and what to do, and writes nothing."
)

# What is changed, and whether runs go on with it as it is.
CHANGES = {
    "another_step": True,
    "another_delay": False,
    "another_column": False,
    "another_table": False,
    "another_event_id": False,
    "a_column_of_events_more": True,
}
BROKEN_OFF_AT = ["plan: after", "work: after", "done: after", "commit: one table"]


@pytest.mark.parametrize("change", in_short(["another_event_id"], CHANGES))
def test_code_that_was_changed_between_two_runs(launcher: Launcher, homes: Homes, tally, change: str):
    told = tally("code is changed between runs")
    home = homes.copy(homes.running)
    refusals = work_through(launcher, home, TO_THE_END, hooks=[f"tests.chaos.hooks:{change}"])
    assert (not refusals) == CHANGES[change], refusals
    told.count(expected(home), found(home), change, refused=bool(refusals))


@pytest.mark.parametrize(
    ("change", "point"),
    [
        pytest.param(change, point, marks=() if (index, number) == (1, 1) else pytest.mark.chaos)
        for index, change in enumerate(CHANGES)
        for number, point in enumerate(BROKEN_OFF_AT)
    ],
)
@pytest.mark.parametrize("job", in_short(["windows"], ["ingest", "windows"]))
def test_code_that_was_changed_while_a_run_had_broken_off(
    launcher: Launcher, homes: Homes, tally, change: str, point: str, job: str
):
    told = tally("code is changed while a run has broken off")
    begun, broken = (WORK[:0], WORK[:1]) if job == "ingest" else (WORK[:2], WORK[2:])
    home = homes.copy(homes.after(homes.running, *begun))
    code, run = launcher.run(home, *broken, environment={fail_points.VARIABLE: point})
    assert code == -signal.SIGKILL, run.said
    refusals = work_through(launcher, home, TO_THE_END, hooks=[f"tests.chaos.hooks:{change}"])
    told.count(expected(home), found(home), f"{change}, broken off at {point!r}", refused=bool(refusals))
