"""Somebody else's code location with Keyfold in it: own assets, an own IO manager, the multiprocess executor."""

import ast
from pathlib import Path

import pytest

from tests.keyfold.dagster.guest import ROOT, Guest, story


@pytest.mark.long
def test_a_guest_that_follows_the_page_has_rows_and_checks_and_sees_a_check_fail(tmp_path):
    story(tmp_path)


PRIVATE = {"serving"}
"""`make ui` puts a gate before Dagster's web server, for which there is no public way; it is not of a code location."""


def test_nothing_that_loads_or_runs_imports_what_is_private_to_dagster():
    def private(path: Path) -> list[str]:
        names = list[str]()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names += [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                names += [f"{node.module}.{one.name}" for one in node.names]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "dg":
                names.append(f"dagster.{node.attr}")
        return [name for name in names if name.startswith("dagster") and "._" in name]

    package = ROOT / "keyfold" / "dagster"
    found = {
        str(path.relative_to(ROOT)): names
        for folder in (package, ROOT / "assets", ROOT / "dagster_project")
        for path in folder.rglob("*.py")
        if not PRIVATE & set(path.relative_to(ROOT).parts) and (names := private(path))
    }
    assert found == {}
    assert private(package / "serving" / "__main__.py"), "the search finds what it looks for"


def test_importing_the_library_needs_no_project_and_changes_nothing(tmp_path):
    code = """
import os, sys
umask = os.umask(0o022); os.umask(0o022)
import keyfold.dagster, dagster as dg
names = [getattr(keyfold.dagster, name) for name in keyfold.dagster.__all__]
assert os.umask(0) == 0o022
"""
    (tmp_path / "use.py").write_text(code)
    guest = tmp_path / "guest"
    guest.mkdir()
    Guest(guest).run(f"python {tmp_path / 'use.py'}")
