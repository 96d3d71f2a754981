"""Any file of a lakehouse deleted, cut short or emptied, and any part of it restored from an older day."""

import json
import random
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from deltalake import DeltaTable

from tests.chaos.conftest import TRIES
from tests.chaos.files_of_homes import files_of
from tests.chaos.launcher import Launcher
from tests.chaos.remedies import work_through
from tests.chaos.scenes import FULL_REFRESH
from tests.chaos.story import INGEST, TO_THE_END, WORK, Homes, expected, found, land, unreadable
from tests.chaos.tally import Tally
from tests.damages import cut_short, delete, empty, restore, write

PROMISE = (
    "What was damaged, lost or restored is refused with a remedy that works, or matters to nobody; nothing is skipped."
)


FAULTS: dict[str, Callable[[Path], None]] = {
    "a file is deleted": delete,
    "a file is cut in half": cut_short,
    "a file is emptied": empty,
}


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


def changed_record(**changes: Any) -> Callable[[Path], None]:
    """The record of a birth, of ingest's or of a generation's, with other values."""

    def change(path: Path) -> None:
        record = json.loads(path.read_text())
        within = {name: record[name] | value for name, value in changes.items() if isinstance(value, dict)}
        path.write_text(json.dumps({**record, **changes, **within}))

    return change


def another_table(path: Path) -> None:
    """One of the same columns, and without rows."""
    schema = DeltaTable(str(path)).schema()
    delete(path)
    DeltaTable.create(str(path), schema)


def like_the_oldest(path: Path) -> None:
    """Put the oldest file of its folder in its place: names, numbers and the journal agree."""
    path.write_bytes(min(path.parent.iterdir()).read_bytes())


JOB = "jobs/totals"
LIVE = f"{JOB}/generation-0001"
OF_ANOTHER_VERSION = "is damaged, or another version of Keyfold wrote it"
LOG = "events/clicks/_delta_log/*.json"
RECORD = "ingest/clicks/ingest.json"
DAMAGED: list[tuple[list[str], Callable[[Path], None] | Literal["older"], str]] = [
    # Paths below the home, what becomes of them, and what the error says; `older` is as of the first run.
    (["live.json"], delete, r"live\.json is lost, while generation-0001 exists"),
    (["live.json"], cut_short, r"live\.json is damaged, while generation-0001 exists"),
    ([LIVE], delete, "names generation-0001 of job totals, which is gone"),
    ([f"{LIVE}/generation.json"], cut_short, r"generation\.json is damaged"),
    ([f"{LIVE}/generation.json"], changed_record(format=1), "was made by an earlier version of Keyfold"),
    (
        [f"{LIVE}/generation.json"],
        changed_record(declaration={"key_groups": 7}),
        "is declared otherwise than generation-0001 was created with: key_groups: 7 → 4",
    ),
    (
        [f"{LIVE}/generation.json"],
        changed_record(declaration={"key": 7}),
        r"generation\.json is damaged: declaration\.key",
    ),
    ([f"{LIVE}/journal/*.done.json"], write("{}"), OF_ANOTHER_VERSION),
    ([f"{LIVE}/journal/clock.json"], write("{"), OF_ANOTHER_VERSION),
    ([f"{LIVE}/journal"], "older", "the journal is older than the table"),
    ([f"{LIVE}/journal", f"{LIVE}/state"], "older", "the journal is older than the table"),
    (["tables/totals"], delete, "its table totals is gone"),
    (["tables/totals/_delta_log/*.json"], cut_short, "the log of its table totals in .* is damaged"),
    (["tables"], "older", "the table is older than the journal"),
    (["tables/changes"], "older", r"table changes has taken no batch after \d, but its journal"),
    ([f"{LIVE}/state", "tables"], "older", "the table is older than the journal"),
    ([f"{LIVE}/state"], "older", "manifests of the state, is gone"),
    ([f"{LIVE}/state"], delete, "manifests of the state, is gone"),
    ([f"{LIVE}/state/manifests/*"], delete, "manifests of the state, is gone"),
    ([f"{LIVE}/state/manifests/*"], empty, "manifests of the state, is damaged"),
    ([f"{LIVE}/state/manifests/*"], cut_short, "manifests of the state, is damaged"),
    (["tables/totals"], another_table, "table totals has taken no batch, but its journal"),
    (["tables/changes/*.parquet"], delete, r"its table changes .*\.parquet"),
    ([f"{LIVE}/state/manifests/*"], like_the_oldest, "manifests of the state, is damaged"),
    (["events/clicks"], delete, "its table events is gone"),
    (["events/clicks"], "older", "the table is older than the journal"),
    ([LOG], cut_short, "the log of its table events in"),
    (["quarantine/clicks"], delete, "its table quarantine is gone"),
    (["ingest/clicks"], delete, "has no record of the files they came from"),
    (["ingest/clicks"], "older", "the journal is older than the table"),
    ([RECORD], cut_short, "ingest.json is damaged"),
    ([RECORD], changed_record(format=99), "is of another version of Keyfold"),
    ([RECORD], changed_record(fixed={"event_id": [["user", "string"]]}), "began with event_id"),
    (["events/clicks"], another_table, "is not the table it wrote to, but another one"),
    (["ingest/clicks/journal/*.done.json"], write("{}"), OF_ANOTHER_VERSION),
]
"""Of a home: paths, of which the newest is damaged, what becomes of it, and what is said; `older` is as of an earlier run."""


@pytest.mark.parametrize(("patterns", "damage", "told"), DAMAGED)
def test_a_part_that_is_damaged_older_or_gone_is_refused_with_a_remedy(
    launcher: Launcher, homes: Homes, tally, patterns: list[str], damage, told: str
):
    older = homes.after(homes.running, INGEST)
    home = homes.copy(homes.after(homes.running, *WORK))
    for pattern in patterns:
        path = max(home.glob(pattern))
        if damage == "older":
            is_of_ingest = pattern.startswith(("ingest", "events", "quarantine"))
            restore(path, (homes.running if is_of_ingest else older) / path.relative_to(home))
        else:
            damage(path)
    land(home, 4, 2)
    counted = tally("a part of the lakehouse is damaged, older or gone")
    refusals = mend_and_count(launcher, counted, home, f"{patterns}, {damage}", ["tests.chaos.hooks:whole_runs"])
    assert any(re.search(told, refusal) for refusal in refusals), refusals


@pytest.mark.parametrize("tries", [pytest.param(TRIES, marks=pytest.mark.chaos)])
def test_a_whole_home_that_is_restored_goes_on_from_where_it_stood(launcher: Launcher, homes: Homes, tally, tries: int):
    told = tally("a whole home is restored older")
    for number in range(tries):
        home = homes.copy(homes.after(homes.running, *WORK[: number % 4]))
        land(home, 4, 1 + number % 3)
        refused = work_through(launcher, home, TO_THE_END)
        told.count(expected(home), found(home), f"after {number % 4} commands", refused=bool(refused))


def damage(launcher: Launcher, homes: Homes, told: Tally, fault: str, files: list[str]) -> None:
    """Break homes, each by one of its files, and mend them."""
    worked = homes.after(homes.running, *WORK)
    for name in files:
        home = homes.copy(worked)
        FAULTS[fault](home / name)
        land(home, 4, 2)
        mend_and_count(launcher, told, home, f"{fault}: {name}")
        shutil.rmtree(home)


def mend_and_count(launcher: Launcher, told: Tally, home: Path, what: str, hooks: Sequence[str] = ()) -> list[str]:
    """Go on as a person would: do what refusals say, and what the docs say of a table that cannot be read; gives what was said."""
    try:
        refusals = work_through(launcher, home, TO_THE_END, hooks=hooks)
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
        return []
    told.count(expected(home), there, f"{what} (refused: {refusals})", refused=bool(refusals))
    return refusals
