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


@pytest.fixture
def guest(tmp_path):
    folder = tmp_path / "guest"
    folder.mkdir()
    guest = Guest(folder)
    (folder / "lake").mkdir()
    landing = folder / "elsewhere"
    landing.mkdir()
    (landing / "a.ndjson").write_text('{"shop": "Oslo", "at": "2026-01-01T10:05:00Z", "cents": 250}\n')
    return guest


def test_where_rows_come_from_can_be_set_without_a_project(guest):
    load = "python -c 'import shop.definitions'"
    guest.run(f"KEYFOLD_LANDING='orders=/data others=/more' {load}")
    guest.run(f"KEYFOLD_KAFKA_BOOTSTRAP=127.0.0.1:9 KEYFOLD_KAFKA_TOPICS='orders=o others=p' {load}")
    refused = guest.run("KEYFOLD_LANDING=oders=/data keyfold ingest orders --home lake 2>&1 && exit 1 || true")
    assert "KEYFOLD_LANDING names oders, but there is no such stream; streams: orders" in refused


def test_commands_find_streams_and_jobs_in_the_definitions(guest):
    commands = """
export KEYFOLD_LANDING=orders=$PWD/elsewhere
keyfold ingest orders --home lake --settle 0
keyfold run orders_per_hour --home lake
keyfold health --home lake || true
sed -i s/shop.definitions/shop.elsewhere/ pyproject.toml
keyfold show late.orders_per_hour --home lake --module shop.definitions
KEYFOLD_MODULE=shop.definitions keyfold show --home lake
keyfold plan orders_per_our --home lake --module shop.definitions 2>&1 || true
keyfold plan orders_per_hour --home lake --module shop.definitons 2>&1 || true
"""
    printed = " ".join(guest.run(commands).split())
    for part in (
        "orders_per_hour (generation-0001): 1 event",
        "orders stream",
        "orders_per_hour job",
        "0 of 0 rows",
        "late.orders_per_hour job orders_per_hour",
        "Did you mean 'orders_per_hour'? Known: orders_per_hour",
        "there is no module shop.definitons: change to the folder that it is in",
    ):
        assert part in printed, printed


def test_definitions_that_cannot_be_loaded_are_named_with_the_reason(guest):
    (guest.folder / "shop" / "mine.py").write_text("raise ValueError('no key')")
    refused = guest.run("keyfold plan orders_per_hour --home lake 2>&1 && exit 1 || true")
    assert "the definitions in shop.definitions cannot be loaded: ValueError: no key; see `dg check defs`" in refused
