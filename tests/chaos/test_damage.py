"""Any file of a lakehouse deleted, cut short or emptied, and any part of it restored from an older day."""

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.conftest import TRIES, in_short
from tests.chaos.launcher import Launcher
from tests.chaos.remedies import work_through
from tests.chaos.scenes import FULL_REFRESH
from tests.chaos.story import INGEST, TO_THE_END, WORK, Homes, expected, found, land, unreadable
from tests.chaos.tally import Tally
from tests.damages import cut_short, delete, empty

PROMISE = (
    "What was damaged, lost or restored is refused with a remedy that works, or matters to nobody; nothing is skipped."
)


FAULTS: dict[str, Callable[[Path], None]] = {
    "a file is deleted": delete,
    "a file is cut in half": cut_short,
    "a file is emptied": empty,
}

NEEDLESS = re.compile(r"(^|/)(\.lock|landing/.*|.*\.crc)$")
"""Locks hold nothing, and landing files that were read may go; files that land are `test_landing.py`'s."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tries", [1, pytest.param(None, marks=pytest.mark.chaos, id="every file")])
def test_a_damaged_file_is_refused_with_a_remedy_or_matters_to_nobody(
    launcher: Launcher, homes: Homes, tally, fault: str, tries: int | None
):
    worked = homes.after(homes.running, *WORK)
    files = files_of(worked)
    damage(launcher, homes, tally(fault), fault, files if tries is None else random.Random(fault).sample(files, tries))


@pytest.mark.parametrize("chosen", [slice(1, 2), pytest.param(slice(None), marks=pytest.mark.chaos)])
def test_an_emptied_entry_of_a_table_s_log_is_no_commit_that_did_nothing(
    launcher: Launcher, homes: Homes, tally, chosen: slice
):
    """Delta's own readers pass over it, and over the rows that it told of."""
    entries = [name for name in files_of(homes.after(homes.running, *WORK)) if "/changes/_delta_log/" in name]
    assert len(entries) > 3
    damage(launcher, homes, tally("an entry of a table's log is emptied"), "a file is emptied", entries[chosen])


PARTS = [
    "ingest/clicks",
    "ingest/clicks/journal",
    "ingest/clicks/ids",
    "events/clicks",
    "quarantine/clicks",
    "jobs/totals",
    "jobs/totals/generation-0001/journal",
    "jobs/totals/generation-0001/state",
    "tables",
    "tables/totals",
    "jobs/windows/generation-0001",
    "jobs/windows/generation-0001/state",
    "tables/windows",
]


@pytest.mark.parametrize("change", ["is restored older", "is gone"])
@pytest.mark.parametrize("part", in_short(["jobs/totals/generation-0001/state"], PARTS))
def test_a_part_that_is_older_than_the_rest_or_gone_is_refused_with_a_remedy(
    launcher: Launcher, homes: Homes, tally, part: str, change: str
):
    told = tally(f"a part of the lakehouse {change}")
    older = homes.after(homes.running, INGEST)
    older = homes.after(homes.running) if part.startswith(("ingest", "events", "quarantine")) else older
    home = homes.copy(homes.after(homes.running, *WORK))
    shutil.rmtree(home / part)
    if change == "is restored older":
        shutil.copytree(older / part, home / part)
    land(home, 4, 2)
    mend_and_count(launcher, told, home, f"{part} {change}")


@pytest.mark.parametrize("tries", [pytest.param(TRIES, marks=pytest.mark.chaos)])
def test_a_whole_home_that_is_restored_goes_on_from_where_it_stood(launcher: Launcher, homes: Homes, tally, tries: int):
    told = tally("a whole home is restored older")
    for number in range(tries):
        home = homes.copy(homes.after(homes.running, *WORK[: number % 4]))
        land(home, 4, 1 + number % 3)
        refused = work_through(launcher, home, TO_THE_END)
        told.count(expected(home), found(home), f"after {number % 4} commands", refused=bool(refused))


def files_of(home: Path) -> list[str]:
    """Files below a home, that some run may need."""
    names = sorted(path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file())
    return [name for name in names if not NEEDLESS.search(name)]


def damage(launcher: Launcher, homes: Homes, told: Tally, fault: str, files: list[str]) -> None:
    """Break homes, each by one of its files, and mend them."""
    worked = homes.after(homes.running, *WORK)
    for name in files:
        home = homes.copy(worked)
        FAULTS[fault](home / name)
        land(home, 4, 2)
        mend_and_count(launcher, told, home, f"{fault}: {name}")
        shutil.rmtree(home)


def mend_and_count(launcher: Launcher, told: Tally, home: Path, what: str) -> None:
    """Go on as a person would: do what refusals say, and what the docs say of a table that cannot be read."""
    try:
        refusals = work_through(launcher, home, TO_THE_END)
        # Nothing that a run needs was damaged: who reads the table is told, and docs/reference/errors.md says what to do.
        for owner in unreadable(home):
            refusals.append(f"a table of {owner} cannot be read")
            remedies = FULL_REFRESH if owner == "jobs" else ((*INGEST, "--rebuild"), *FULL_REFRESH)
            code, run = launcher.run(home, *remedies)
            assert code == 0, run.said
            refusals += work_through(launcher, home, TO_THE_END)
        there = found(home)
    except AssertionError as error:
        told.counts.update({"tried": 1, "came": 1})
        told.fail(f"{what}: {error}")
        return
    told.count(expected(home), there, f"{what} (refused: {refusals})", refused=bool(refusals))
