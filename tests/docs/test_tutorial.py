"""docs/tutorial/own-stream-and-job.md is run as it stands, in a copy of the project: every command, every edit, every output.

What its commands leave behind is looked at too: few tests run so many, each in a process of its own.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from keyfold.lakehouse import Lakehouse
from tests.lake import Lake
from tests.project_copy import ROOT, copy_project, environment_of

pytestmark = pytest.mark.long

PAGE = (ROOT / "docs" / "tutorial" / "own-stream-and-job.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OVER = "==== over: "


class Played(NamedTuple):
    """What came of the page's commands: what each block should print, what all printed, and their lakehouse."""

    expected: list[str]
    done: subprocess.CompletedProcess[str]
    project: Path
    home: Path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("tutorial")
    project = copy_project(folder / "keyfold")
    script, expected = as_script(folder)
    environment = environment_of(project, TMPDIR=str(folder), KEYFOLD_SPARK_MASTER="local[2]")
    done = subprocess.run(
        ["bash"],
        input=script,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        umask=0o022,
    )
    (home,) = folder.glob("tmp.*")
    return Played(expected, done, project, home)


def test_every_command_of_the_tutorial_does_what_the_page_says(played):
    expected, done = played.expected, played.done
    printed = done.stdout.split(OVER)
    found = [comparable(text.partition("\n")[2] if number else text) for number, text in enumerate(printed)]
    codes = [text.partition("\n")[0] for text in printed[1:]]
    for number, text in enumerate(expected):
        whole = played.project.parent / f"{number}.log"
        said = whole.read_text(encoding="utf-8")[-20_000:] if whole.exists() else done.stderr[-5000:]
        assert found[number] == comparable(text), f"block {number}:\n{printed[number]}\n{said}"
    assert codes == [*["0"] * (len(expected) - 1), "1"], done.stderr[-5000:]  # grep found no job, as it should
    assert not list(played.project.rglob("*road_*.py"))


def test_tables_journals_and_state_of_commands_are_their_user_s_alone(played):
    """Spark's workers write the tables."""
    # The page's shell, which has a wide umask, lands the files and makes Dagster's folder.
    by_the_shell = (played.home / "landing", played.home / "dagster")
    written = [
        path for path in played.home.rglob("*") if not any(path.is_relative_to(folder) for folder in by_the_shell)
    ]
    names = {path.name for path in written}
    assert {"manifests", "state", "journal", "live.json", "_delta_log"} <= names
    assert any(path.suffix == ".parquet" for path in written)
    assert [str(path.relative_to(played.home)) for path in written if path.stat().st_mode & 0o077] == []


def test_events_are_counted_in_a_process_in_which_no_query_of_spark_has_run(played):
    """A run that finds nothing new makes no batch, and so starts no query; its events balance all the same."""
    assert "Asset check 'no_event_is_lost' on 'hourly_road_speeds' passed" in played.done.stdout
    generation = Lake(Lakehouse(played.home)).live("hourly_road_speeds")
    done = generation.journal.last_done()
    assert done is not None
    assert done.batch == 1, "a batch of each `keyfold run`, and none of the run in Dagster"


def as_script(folder: Path) -> tuple[str, list[str]]:
    """The page as one shell script that says when a block is over and how it ended, and what each block should print."""
    lines: list[str] = []
    expected: list[str] = []
    for kind, text in BLOCK.findall(PAGE):
        assert kind in ("sh", "diff", "text"), f"nobody runs a block of {kind!r}"
        if kind == "text":
            expected[-1] = text
            continue
        expected.append("")
        # What the page greps through is kept whole: of what went wrong in it, grep lets nothing pass.
        whole = f"2>&1 | tee {folder / f'{len(expected) - 1}.log'} |"
        command = text.replace("2>&1 |", whole) if kind == "sh" else edit(text, folder / f"{len(expected)}.diff")
        lines += [command, f"echo '{OVER}'$?"]
    return "\n".join(lines), expected


def edit(diff: str, file: Path) -> str:
    file.write_text(diff, encoding="utf-8")
    return shlex.join([sys.executable, str(ROOT / "tests" / "docs" / "edits.py"), str(file)])


def comparable(text: str) -> list[str]:
    """Lines without how long something took, in any order: rows of a table have none."""
    return sorted(re.sub(r"\bin \d+\.\d s\b", "in N s", line.rstrip()) for line in text.splitlines())
