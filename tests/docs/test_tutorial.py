"""docs/tutorial.md is run as it stands, in a copy of the project: every command, every edit, every output."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project_copy import ROOT, copy_project, environment_of

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OVER = "==== over: "


@pytest.mark.long
def test_every_command_of_the_tutorial_does_what_the_page_says(tmp_path):
    project = copy_project(tmp_path / "keyfold")
    script, expected = as_script(tmp_path)
    environment = environment_of(project, TMPDIR=str(tmp_path), KEYFOLD_SPARK_MASTER="local[2]")
    done = subprocess.run(
        ["bash"], input=script, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=1200
    )
    printed = done.stdout.split(OVER)
    found = [comparable(text.partition("\n")[2] if number else text) for number, text in enumerate(printed)]
    codes = [text.partition("\n")[0] for text in printed[1:]]
    for number, text in enumerate(expected):
        assert found[number] == comparable(text), f"block {number}:\n{printed[number]}\n{done.stderr[-5000:]}"
    assert codes == [*["0"] * (len(expected) - 1), "1"], done.stderr[-5000:]  # grep found no job, as it should
    assert not list(project.rglob("road_*.py"))


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
        lines += [text if kind == "sh" else edit(text, folder / f"{len(expected)}.diff"), f"echo '{OVER}'$?"]
    return "\n".join(lines), expected


def edit(diff: str, file: Path) -> str:
    file.write_text(diff, encoding="utf-8")
    return shlex.join([sys.executable, str(ROOT / "tests" / "docs" / "edits.py"), str(file)])


def comparable(text: str) -> list[str]:
    """Lines without how long something took, in any order: rows of a table have none."""
    return sorted(re.sub(r"\bin \d+\.\d s\b", "in N s", line) for line in text.splitlines())
