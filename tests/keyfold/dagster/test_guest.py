"""Somebody else's code location with Keyfold in it: own assets, an own IO manager, the multiprocess executor."""

import ast
import json
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from tests.keyfold.dagster.guest import ROOT, Guest

TABLES = "orders_events,orders_quarantine,orders_per_hour,orders_per_hour_late"


def latest(instance: dg.DagsterInstance, asset: str, check: str) -> str:
    record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(dg.AssetKey(asset), check))
    return record.status.value if record else "none"


@pytest.mark.long
def test_a_guest_that_follows_the_page_has_rows_and_checks_and_sees_a_check_fail(tmp_path):
    guest = Guest(tmp_path)
    guest.run(guest.commands)
    rows = pl.read_delta(str(tmp_path / "lake" / "tables" / "orders_per_hour"))
    assert rows.select("shop", "orders", "cents").rows() == [("Oslo", 2, 400)]
    with dg.DagsterInstance.from_config(str(tmp_path / "dagster")) as instance:
        seen = {
            check: latest(instance, asset, check)
            for asset, check in (
                ("orders_events", "every_row_is_accounted_for"),
                ("orders_per_hour", "no_event_is_lost"),
                ("orders_per_hour", "cents_are_positive"),
            )
        }
        assert set(seen.values()) == {"SUCCEEDED"}, seen
        # Their own assets, by their IO manager and executor; steps of more than one process.
        guest.run("dg launch --assets '*'")
        assert json.loads((tmp_path / "mine" / "shop_count.json").read_text()) == 2
        (newest,) = instance.get_run_records(limit=1)
        processes = {
            event.dagster_event.pid
            for event in instance.all_logs(newest.dagster_run.run_id)
            if event.dagster_event and event.dagster_event.is_step_start and hasattr(event.dagster_event, "pid")
        }
        assert newest.dagster_run.is_success
        assert len(processes) > 1
        free = '{"shop": "Oslo", "at": "2026-01-01T13:00:00Z", "cents": -2}\n'
        late = '{"shop": "Oslo", "at": "2026-01-01T15:00:00Z", "cents": 1}\n'
        (tmp_path / "lake" / "landing" / "orders" / "second.ndjson").write_text(free + late)
        with pytest.raises(AssertionError):
            guest.run(f"dg launch --assets '{TABLES}'")
        assert latest(instance, "orders_per_hour", "cents_are_positive") == "FAILED"


PRIVATE = ("serving",)
"""`make ui` puts a gate before Dagster's web server, for which there is no public way; it neither loads definitions nor runs them."""


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
        if not (path.is_relative_to(package) and path.relative_to(package).parts[0] in PRIVATE)
        and (names := private(path))
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
