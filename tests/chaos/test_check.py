"""`keyfold check` finds every file that a run needs and that is gone, cut short or no record any more, and nothing of a home that is well."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zlib import crc32

import pytest

from keyfold.lakehouse import Lakehouse
from keyfold.maintenance import checking
from tests.chaos.conftest import in_short
from tests.chaos.files_of_homes import IS_SEALED, current_files, files_of, is_left_to_the_store, needless
from tests.chaos.launcher import Launcher
from tests.chaos.scenes import SCENES
from tests.chaos.story import INGEST, TO_THE_END, TOTALS, WINDOWS, WORK, Homes, land
from tests.damages import cut_short, delete, flip, zero

DAMAGES: dict[str, Callable[[Path], None]] = {
    "deleted": delete,
    "cut short": cut_short,
    "zeroed at equal size": zero,
    "flipped in one byte": flip,
}


@pytest.fixture(autouse=True)
def look_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checking, "_TRIES", 1)


def found_in(home: Path) -> list[str]:
    """The damaged files."""
    return [Path(finding.path).relative_to(home).as_posix() for finding in checking.check(Lakehouse(home))]


@pytest.mark.parametrize(
    ("each", "one_in"), [(False, 3), pytest.param(True, 1, marks=pytest.mark.chaos, id="each damage of each file")]
)
def test_each_file_that_is_damaged_is_found(homes: Homes, each: bool, one_in: int):
    home = homes.copy(homes.after(homes.running, *WORK, *WORK[1:]))
    assert found_in(home) == []
    is_needless = needless(home)
    unseen = []
    for name in files_of(home)[::one_in]:
        file, content = home / name, (home / name).read_bytes()
        if not content:
            continue
        # One damage a file in short, another one for the next.
        for damage in DAMAGES if each else [list(DAMAGES)[crc32(name.encode()) % len(DAMAGES)]]:
            if is_needless(name, damage) or is_left_to_the_store(name, damage):
                continue
            DAMAGES[damage](file)
            if not found_in(home):
                unseen.append((name, damage))
            file.write_bytes(content)
    assert unseen == []
    assert found_in(home) == []


def test_each_record_that_is_older_than_it_was_is_named(homes: Homes):
    older, home = homes.running, homes.copy(homes.after(homes.running, *WORK))
    current = current_files(home)
    # What never changes under its name is replaced by the one before it in its folder.
    pairs = [(older / "live.json", "live.json"), *neighbours(home)]
    for source, name in pairs:
        if not IS_SEALED.search(name) or ("/manifests/" in name and name not in current):
            continue
        file, content, replaced = home / name, (home / name).read_bytes(), source.read_bytes()
        file.write_bytes(replaced)
        assert replaced == content or name in found_in(home), name
        file.write_bytes(content)


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
