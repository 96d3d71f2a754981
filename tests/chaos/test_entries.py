"""Every kind of directory entry in a landing folder, under every command: it costs itself alone, and is named."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.backup import restore
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from tests.chaos.conftest import in_short
from tests.chaos.launcher import Launcher
from tests.chaos.story import INGEST, TO_THE_END, Homes, click, found, moment, rows_of
from tests.entries import KINDS, SECRET, Kind, make, remove

PROMISE = (
    "Whatever lies in a landing folder: other files are read once and backed up, it is named, and nobody waits for it."
)

BOUNDED = "tests.chaos.hooks:end_within_a_minute"
WITHOUT_RIGHTS = "tests.chaos.hooks:keep_no_one_out_but_by_modes"

ALL = "all at once"
# Root and everybody else: modes keep only the latter out.
HOOKS = {"anybody": [BOUNDED, WITHOUT_RIGHTS]} | ({"root": [BOUNDED]} if os.geteuid() == 0 else {})


@pytest.fixture
def home(homes: Homes) -> Iterator[Path]:
    home = homes.copy(homes.after(homes.running, *TO_THE_END))
    yield home
    remove(home)


@pytest.fixture
def outside(tmp_path: DiskPath) -> Iterator[Path]:
    (tmp_path / "outside").mkdir()
    yield tmp_path / "outside"
    remove(tmp_path / "outside")


def outcome_of(kind: Kind, hooks: Sequence[str]) -> str:
    return "read" if kind.is_open_to_root and WITHOUT_RIGHTS not in hooks else kind.outcome


@pytest.mark.parametrize("who", HOOKS)
@pytest.mark.parametrize("chosen", in_short([ALL], [ALL, *KINDS]))
def test_an_entry_of_any_kind_costs_itself_alone(
    launcher: Launcher, home: Path, outside: Path, tmp_path: DiskPath, tally, who: str, chosen: str
):
    landing, hooks = home / "landing" / "clicks", HOOKS[who]
    kinds = list(KINDS) if chosen == ALL else [chosen]
    expected_rows = found(home)
    landed: dict[str, Path] = {}
    for minute, kind in enumerate(kinds):
        if (path := make(kind, landing, outside, click(kind, minute))) is not None:
            landed[kind] = path
    outcomes = {kind: outcome_of(KINDS[kind], hooks) for kind in landed}
    for minute, kind in enumerate(kinds):
        if outcomes.get(kind) == "read" and kind != "an empty file":
            expected_rows["events", kind, moment(minute)[:16].replace("T", " ")] += 1
    # A link to each other: both of them.
    rejected = [kind for kind, outcome in outcomes.items() if outcome == "quarantined"]
    expected_rows[("quarantine",)] += len(rejected) + ("two links to each other" in rejected)

    def run(*command: str, codes: Sequence[int] = (0,)) -> str:
        code, ran = launcher.run(home, command, hooks=hooks)
        assert code in codes, f"{command} ended with {code}: {ran.said}"
        assert "Traceback" not in ran.said, ran.said
        for folder in (home / "backup", tmp_path / "backups", *home.glob("ingest/*"), *home.glob("jobs/*")):
            assert not to_place(folder).is_held(), f"{command} has left {folder} locked"
        return ran.said

    waits = [kind for kind, outcome in outcomes.items() if outcome == "waits"]
    unread = [kind for kind in landed if KINDS[kind].is_named and outcomes[kind] != "read"]
    said = run(*INGEST)
    assert_named(landed, waits, said)
    run("drift", "clicks")
    assert_named(landed, unread, run("health", "clicks", codes=[1 if waits else 0]))
    assert_named(landed, unread, run("check"))
    said = run("backup", str(tmp_path / "backups"), codes=[1 if waits else 0])
    assert ("lacks" in said) == bool(waits)
    assert_named(landed, waits or [kind for kind in landed if not is_in_backup(kind, outcomes)], said)
    check_backup(tmp_path, DiskPath(landing), landed, outcomes)
    again = run(*INGEST)
    assert "0 rows from 0 files" in again
    tally("each kind of entry").count(expected_rows, found(home), said)
    files = [str(row["file"]) for row in rows_of(Lakehouse(home).quarantine("clicks")) if row["line"] is None]
    for kind in rejected:
        assert any(ascii_name(landed[kind]) in file for file in files), (kind, files)


def ascii_name(path: Path) -> str:
    return os.fsencode(path.name).decode("ascii", "backslashreplace")


def assert_named(landed: dict[str, Path], kinds: Sequence[str], said: str) -> None:
    """Check that entries are named, or that more are counted than are shown."""
    # Escaped once more in JSON.
    said = said.replace("\\", "")
    missing = [kind for kind in kinds if ascii_name(landed[kind]).replace("\\", "")[:60] not in said]
    assert not missing or " more " in said, (missing, said)


def is_in_backup(kind: str, outcomes: dict[str, str]) -> bool:
    return KINDS[kind].in_backup or (KINDS[kind].is_open_to_root and outcomes[kind] == "read")


def check_backup(tmp_path: DiskPath, landing: DiskPath, landed: dict[str, Path], outcomes: dict[str, str]) -> None:
    """Check that a backup has the content of all regular files, and none of what is outside."""
    backups, again = tmp_path / "backups", tmp_path / "again"
    try:
        restore(backups, Lakehouse(again))
        for kind, path in landed.items():
            copy = again / "landing" / "clicks" / path.relative_to(landing)
            assert copy.exists() == is_in_backup(kind, outcomes), kind
            if copy.is_file():
                assert copy.read_bytes() == path.read_bytes(), kind
        assert all(SECRET.encode() not in file.read_bytes() for file in (backups / "content").iterdir())
        assert not any(file.is_symlink() for file in (again / "landing" / "clicks").iterdir())
    finally:
        remove(again)
