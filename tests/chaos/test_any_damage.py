"""Each file of a lakehouse in each state of damage, under each command: a finding or an error with a remedy, and never a loss."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.backup import restore
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from tests.chaos.conftest import in_short
from tests.chaos.files_of_homes import files_of, is_left_to_the_store, needless
from tests.chaos.launcher import Launcher
from tests.chaos.story import INGEST, TOTALS, WINDOWS, WORK, Homes, found, unreadable
from tests.chaos.tally import Rows
from tests.damages import WRONG_JSON, cut_short, delete, empty, put_wrong_json, zero_some

PROMISE = "Under each command, each damage of each file is a finding or an error with a remedy: no traceback, nothing is lost in silence."

BOUNDED = "tests.chaos.hooks:end_within_a_minute"

DAMAGES: dict[str, Callable[[Path], None]] = {
    "deleted": delete,
    "emptied": empty,
    "cut short": cut_short,
    # A copy of it is as damaged as the file: what no reader can see there is left to the store.
    "16 zero bytes": zero_some,
    **{f"replaced by {text}": put_wrong_json(text) for text in WRONG_JSON},
}
_ONE_IN = 60

COMMANDS = (("check",), ("health",), INGEST, TOTALS, WINDOWS)


def is_json(name: str) -> bool:
    return name.endswith((".json", ".jsonl", "_last_checkpoint"))


def kind_of(name: str) -> str:
    """A file's name without what differs between the files of a kind."""
    return re.sub(r"[0-9a-f]{16,}|\d+", "#", re.sub(r"part-[^/]*", "part-#", name))


def cases(worked: Path) -> list[tuple[str, str]]:
    """The first, the middle and the last file of each kind, each with each damage."""
    kinds: dict[str, list[str]] = {}
    for name in files_of(worked):
        if (worked / name).stat().st_size:
            kinds.setdefault(kind_of(name), []).append(name)
    names = {name for ones in kinds.values() for name in (ones[0], ones[len(ones) // 2], ones[-1])}
    return [
        (name, damage)
        for name in sorted(names)
        for damage in DAMAGES
        if is_json(name) or not damage.startswith("replaced")
    ]


@pytest.mark.parametrize("chosen", in_short(["some of all"], ["some of all", *DAMAGES]))
def test_each_command_says_what_is_wrong_and_loses_nothing(
    launcher: Launcher, homes: Homes, tmp_path: DiskPath, tally, chosen: str
):
    worked = homes.after(homes.running, *WORK)
    told, is_needless, whole = tally("a damaged file"), needless(worked), found(worked)
    for name, damage in cases(worked):
        if damage != chosen and (chosen in DAMAGES or crc32(repr((name, damage)).encode()) % _ONE_IN):
            continue
        home, backups, what = homes.copy(worked), tmp_path / "backups", f"{name} {damage}"
        DAMAGES[damage](home / name)
        faults = list[str]()
        _, run = launcher.run(home, attempts=[("backup", str(backups)), *COMMANDS], hooks=[BOUNDED])
        codes, said = run.tried, run.said
        if len(codes) != 1 + len(COMMANDS) or not set(codes) <= {0, 1} or "Traceback" in said or "panicked" in said:
            faults.append(f"ended with {codes}: {said[-2500:]}")
        else:
            backed_up, checked, _, *went_on = codes
            is_rot = is_left_to_the_store(name, damage)
            if not (checked or name in said or is_rot or is_needless(name, damage)):
                faults.append(f"check finds nothing: {said}")
            if said.count("error: ") < backed_up + sum(went_on):
                faults.append(f"a command failed without a word of why: {codes} {said}")
            if backed_up == 0:
                faults += [] if is_rot else faults_of_backup(launcher, backups, tmp_path / "again", whole)
        faults += [f"{lock.parent} is left locked" for lock in home.rglob(".lock") if to_place(lock.parent).is_held()]
        told.counts.update({"tried": 1, "came": 1, "survived": not faults})
        for fault in faults:
            told.fail(f"{what}: {fault}")
        shutil.rmtree(home)
        shutil.rmtree(backups)


def faults_of_backup(launcher: Launcher, backups: Path, to: Path, whole: Rows) -> list[str]:
    """Say what is missing, once its runs have gone on, from a backup that was made."""
    restore(to_place(backups), Lakehouse(to))
    try:
        code, run = launcher.run(to, *WORK, hooks=[BOUNDED])
        lost = [run.said] if code else unreadable(to) or [f"{found(to) - whole} instead of {whole - found(to)}"]
        return [] if not code and found(to) == whole else [f"it was backed up without a word: {lost}"]
    finally:
        shutil.rmtree(to)
