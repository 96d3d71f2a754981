"""The pages of commands and metrics are those of the code."""

import subprocess
import sys
from pathlib import Path

import pytest

from keyfold.cli.app import commands

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

# In a process of its own: help texts name the project's streams, and other tests add some to this process.
FILL = """
import sys
from runpy import run_path
sys.stdout.write(run_path("scripts/docs_commands.py")["fill"](sys.stdin.read()))
"""


@pytest.mark.parametrize("name", ["reference/commands.md", "how-to/run-continuously.md"])
def test_no_page_is_stale(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    filled = subprocess.run(
        [sys.executable, "-c", FILL], input=text, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert filled.stderr == ""
    assert filled.stdout == text, "make docs writes the page anew"


def test_every_command_has_its_section():
    text = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in commands() if f"\n## keyfold {name}" not in text] == []
