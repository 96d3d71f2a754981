"""`keyfold check` names every file that is damaged, and nothing of a home that is well."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zlib import crc32

import pytest
from deltalake import DeltaTable

from keyfold.lakehouse import Lakehouse
from keyfold.maintenance import checking
from tests.chaos.conftest import in_short
from tests.chaos.launcher import Launcher
from tests.chaos.scenes import SCENES
from tests.chaos.story import INGEST, TO_THE_END, TOTALS, WINDOWS, WORK, Homes, land
from tests.chaos.test_damage import files_of
from tests.damages import cut_short, delete, flip, zero

DAMAGES: dict[str, Callable[[Path], None]] = {
    "deleted": delete,
    "cut short": cut_short,
    "zeroed at equal size": zero,
    "flipped in one byte": flip,
}


def is_unseen(name: str, damage: str, current: set[str]) -> bool:
    """What a check does not see: what no table, job or ingest needs any more, once it is gone."""
    is_data = name.endswith(".parquet") and ("/part-" in name or "/state/" in name)
    is_data_file_of_an_older_version = is_data and name not in current
    return damage == "deleted" and is_data_file_of_an_older_version


@pytest.fixture(autouse=True)
def look_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "_TRIES", 1)


def found_in(home: Path) -> list[str]:
    """The damaged files."""
    findings = checking.check(Lakehouse(home))
    return [Path(one.path).relative_to(home).as_posix() for one in findings]


@pytest.mark.parametrize(
    ("each", "one_in"), [(False, 3), pytest.param(True, 1, marks=pytest.mark.chaos, id="each damage of each file")]
)
def test_each_file_that_is_damaged_is_named(homes: Homes, each: bool, one_in: int):
    home = homes.copy(homes.after(homes.running, *WORK, *WORK[1:]))
    assert found_in(home) == []
    current = current_files(home)
    unseen = []
    for name in files_of(home)[::one_in]:
        file, content = home / name, (home / name).read_bytes()
        if not content:
            continue
        # One damage a file in short, another one for the next.
        for damage in DAMAGES if each else [list(DAMAGES)[crc32(name.encode()) % len(DAMAGES)]]:
            if is_unseen(name, damage, current):
                continue
            DAMAGES[damage](file)
            if name not in found_in(home):
                unseen.append((name, damage))
            file.write_bytes(content)
    assert unseen == []
    assert found_in(home) == []


@pytest.mark.parametrize("one_in", [3, pytest.param(1, marks=pytest.mark.chaos)])
def test_each_file_that_is_older_than_it_was_is_named(homes: Homes, one_in: int):
    older, home = homes.running, homes.copy(homes.after(homes.running, *WORK))
    changed = [name for name in files_of(older) if (home / name).exists() and differ(older / name, home / name)]
    # What never changes under its name is replaced by the one before it in its folder.
    pairs = [(older / name, name) for name in changed] + list(neighbours(home))
    assert any(name.endswith(("live.json", "clock.json")) for name in changed)
    unseen = []
    for source, name in pairs[::one_in]:
        file, content, replaced = home / name, (home / name).read_bytes(), source.read_bytes()
        file.write_bytes(replaced)
        if name not in found_in(home):
            unseen.append((name, source.name))
        file.write_bytes(content)
    assert unseen == []


@pytest.mark.parametrize("scene", in_short(["move of state", "erasure"], SCENES))
def test_nothing_is_found_after_whatever_changes_a_home(launcher: Launcher, homes: Homes, scene: str):
    home = SCENES[scene].home(homes)
    code, run = launcher.run(home, *SCENES[scene].commands)
    assert code == 0, run.said
    assert found_in(home) == []
    code, run = launcher.run(home, *SCENES[scene].after, *TO_THE_END)
    assert code == 0, run.said
    assert found_in(home) == []


def test_nothing_is_found_while_runs_go_on(launcher: Launcher, homes: Homes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "_TRIES", 3)
    home = homes.copy(homes.after(homes.running, *WORK))
    land(home, 4, 8)
    with ThreadPoolExecutor(1) as beside:
        run = beside.submit(launcher.run, home, *TO_THE_END)
        while not run.done():
            found = checking.check(Lakehouse(home))
            assert [one for one in found if one.is_damage] == []
    code, ran = run.result()
    assert code == 0, ran.said
    assert found_in(home) == []


def test_nothing_is_found_after_a_home_was_moved_maintained_and_pruned(launcher: Launcher, homes: Homes):
    home = homes.copy(homes.after(homes.running, *WORK))
    moved = home.rename(home.with_name("moved-home"))
    assert found_in(moved) == []
    for commands in (
        [("maintain",)],
        [INGEST, TOTALS, (*WINDOWS, "--full-refresh")],
        [("state", "prune", "totals", "--yes")],
    ):
        code, run = launcher.run(moved, *commands)
        assert code == 0, run.said
        assert found_in(moved) == []


def differ(one: Path, other: Path) -> bool:
    return one.read_bytes() != other.read_bytes()


def neighbours(home: Path):
    """Files, each with another one of its folder and kind, of other content."""
    kinds: dict[tuple[Path, str], Path] = {}
    for name in files_of(home):
        file = home / name
        before = kinds.get((file.parent, "".join(file.suffixes[-2:])))
        kinds[file.parent, "".join(file.suffixes[-2:])] = file
        if before is not None and before.read_bytes() and differ(before, file):
            yield before, name


def current_files(home: Path) -> set[str]:
    """The data files that tables consist of now, and the manifests of the batches that are kept."""
    logs = [path.parent for path in home.rglob("_delta_log")]
    kept = {
        (journal.parent / "state" / "manifests" / name).relative_to(home).as_posix()
        for journal in home.glob("jobs/*/generation-*/journal")
        for record in journal.glob("*.done.json")
        for name in json.loads(record.read_text()).get("manifests", {})
    }
    return kept | {
        (table / path).relative_to(home).as_posix()
        for table in logs
        for path in DeltaTable(str(table)).get_add_actions()["path"].to_pylist()
    }
