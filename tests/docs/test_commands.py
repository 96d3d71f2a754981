"""The pages of commands and metrics are those of the code."""

from pathlib import Path
from runpy import run_path

import pytest

from keyfold.cli.app import commands

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
fill = run_path(str(ROOT / "scripts" / "docs_commands.py"))["fill"]


@pytest.mark.parametrize("name", ["commands.md", "metrics.md"])
def test_no_page_is_stale(name):
    text = (REFERENCE / name).read_text(encoding="utf-8")
    assert fill(text) == text, "make docs writes the page anew"


def test_every_command_has_its_section():
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    assert [name for name in commands() if f"\n## keyfold {name}" not in text] == []
