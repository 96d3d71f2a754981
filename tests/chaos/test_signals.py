"""TERM, HUP, INT and KILL to runs, bounded and continuous, at any moment; with Spark see `test_on_spark.py`."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.conftest import TRIES, in_short
from tests.chaos.launcher import Launcher, Run
from tests.chaos.story import INGEST, TO_THE_END, TOTALS, WORK, Homes, expected, found, land
from tests.waiting import wait_until

PROMISE = "A run that is told to stop, or killed, ends; the next one goes on where it was."

SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL]
LONGEST_LIFE_IN_SECONDS = 1.5


@pytest.mark.parametrize("number", in_short([signal.SIGTERM, signal.SIGKILL], SIGNALS))
@pytest.mark.parametrize("tries", [1, pytest.param(2 * TRIES, marks=pytest.mark.chaos)])
def test_a_bounded_run_gets_a_signal(launcher: Launcher, homes: Homes, tally, number: signal.Signals, tries: int):
    told, moments, longest = tally(f"a bounded run gets {number.name}"), random.Random(number), 0.0
    if tries > 1:
        began = time.monotonic()
        code, run = launcher.run(homes.copy(homes.running), *WORK)
        assert code == 0, run.said
        longest = time.monotonic() - began
    for index in range(tries):
        home = homes.copy(homes.running)
        before = newest(journals_of(home)[0])
        run = launcher.start(home, *WORK)
        # Once it has planned something: it hears signals, and nearly all of its work is left.
        wait_for_batch(journals_of(home)[:1], [run], [before])
        time.sleep(moments.uniform(0, longest))
        run.signal(number)
        code = run.wait()
        assert code in (0, 1, 130, -number), run.said
        code_after, run = launcher.run(home, *TO_THE_END)
        assert code_after == 0, run.said
        told.count(expected(home), found(home), f"try {index}", came=code != 0)


@pytest.mark.parametrize("number", in_short([signal.SIGTERM, signal.SIGKILL], SIGNALS))
@pytest.mark.parametrize("tries", [1, pytest.param(TRIES, marks=pytest.mark.chaos)])
def test_continuous_runs_get_a_signal(launcher: Launcher, homes: Homes, tally, number: signal.Signals, tries: int):
    told, moments = tally(f"continuous ingest and a continuous job get {number.name}"), random.Random(number)
    home = homes.copy(homes.after(homes.running, *WORK))
    for index in range(tries):
        before = [newest(folder) for folder in journals_of(home)]
        runs = [launcher.start(home, (*command, "--continuous")) for command in (INGEST, TOTALS)]
        land(home, 4 + index, 1)
        wait_for_batch(journals_of(home), runs, before)
        time.sleep(moments.uniform(0, LONGEST_LIFE_IN_SECONDS) if tries > 1 else 0)
        for run in runs:
            run.signal(number)
        for run in runs:
            code = run.wait()
            if number in (signal.SIGTERM, signal.SIGINT):
                assert code == 0, run.said
                assert "accepted" in run.said or "events in" in run.said
            else:
                assert code == -number, run.said
    code, run = launcher.run(home, *TO_THE_END)
    assert code == 0, run.said
    told.count(expected(home), found(home), number.name)


def wait_for_batch(journals: list[Path], runs: list[Run], before: list[str]) -> None:
    """Until something of what landed was planned in all of them: until then a run may not have come to hear signals."""

    def planned() -> bool:
        return all(newest(folder) != known for folder, known in zip(journals, before, strict=True))

    wait_until(planned, lambda: [run.said for run in runs])


def journals_of(home: Path) -> list[Path]:
    return [home / "ingest" / "clicks" / "journal", *home.glob("jobs/totals/generation-*/journal")]


def newest(journal: Path) -> str:
    return max((path.name for path in journal.glob("*.plan.json")), default="")
