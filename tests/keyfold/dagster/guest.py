"""Somebody else's code location, to which the page *Add Keyfold to a code location that you have* is applied as it stands.

`python -m tests.keyfold.dagster.guest` does so with the Dagster of its environment: see `make dagster-versions`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import dagster as dg
import polars as pl

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "add-to-your-dagster.md"

MINE = """
import json
import os
from pathlib import Path

import dagster as dg


class JsonFiles(dg.ConfigurableIOManager):
    folder: str

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        path = Path(self.folder, f"{context.asset_key.path[-1]}.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(obj))

    def load_input(self, context: dg.InputContext) -> object:
        return json.loads(Path(self.folder, f"{context.asset_key.path[-1]}.json").read_text())


@dg.asset
def shops() -> list[str]:
    return ["Oslo", "Rome"]


@dg.asset
def shop_count(shops: list[str]) -> int:
    return len(shops)


defs = dg.Definitions(
    assets=[shops, shop_count],
    resources={"io_manager": JsonFiles(folder="mine")},
    # A process for each step takes seconds; Keyfold's steps have them in one of the story's runs.
    executor=dg.in_process_executor if "IN_ONE_PROCESS" in os.environ
    else dg.multiprocess_executor.configured({"max_concurrent": 2}),
)
"""

PROJECT = """
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
code_location_target_module = "shop.definitions"
"""


class Guest:
    """A folder with the code location, and commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "dagster").mkdir()
        (folder / "shop" / "defs").mkdir(parents=True)
        (folder / "shop" / "__init__.py").touch()
        (folder / "shop" / "mine.py").write_text(MINE)
        (folder / "pyproject.toml").write_text(PROJECT)
        page = PAGE.read_text(encoding="utf-8")
        for name, code in re.findall(r'```python title="([\w/]+\.py)"\n(.*?)```', page, re.DOTALL):
            (folder / name).write_text(code)
        _, self.commands, self.of_keyfold = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)

    def run(self, command: str) -> str:
        """Run a command of a shell in the folder."""
        return run_in(self.folder, command)


def run_in(folder: Path, command: str) -> str:
    """Run a command of a shell in a folder with `dagster`, its instance; return what it printed, or fail with it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD", "DAGSTER"))}
    environment = kept | {
        "DAGSTER_HOME": str(folder / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        # As of a project that is installed.
        "PYTHONPATH": str(folder),
    }
    done = subprocess.run(
        ["sh", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


AGAIN = """
import dagster as dg
from shop.definitions import defs

job = defs.resolve_implicit_global_asset_job_def()
tables = [dg.AssetKey(f"orders{table}") for table in ("_events", "_per_hour")]
job.execute_in_process(instance=dg.DagsterInstance.get(), raise_on_error=False, asset_selection=tables)
"""
"""In one process: the page's own command starts one for each step."""


def latest(instance: dg.DagsterInstance, asset: str, check: str) -> str:
    record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(dg.AssetKey(asset), check))
    return record.status.value if record else "none"


def story(folder: Path) -> None:
    """Follow the page; run the guest's own assets with it; land rows that the suite refuses."""
    guest = Guest(folder)
    guest.run(f"export IN_ONE_PROCESS=yes\n{guest.commands}")
    printed = guest.run(guest.of_keyfold)
    for part in ("verdict: free", "branch: again"):
        assert part in printed, printed
    rows = pl.read_delta(str(folder / "lake" / "tables" / "orders_per_hour"))
    assert rows.select("shop", "orders", "cents").rows() == [("Oslo", 2, 400)]
    with dg.DagsterInstance.from_config(str(folder / "dagster")) as instance:
        seen = {
            check: latest(instance, asset, check)
            for asset, check in (
                ("orders_events", "every_row_is_accounted_for"),
                ("orders_per_hour", "no_event_is_lost"),
                ("orders_per_hour", "cents_are_positive"),
            )
        }
        assert set(seen.values()) == {"SUCCEEDED"}, seen
        # With their own assets, by their IO manager and executor; steps of more than one process.
        guest.run("dagster asset materialize -m shop.definitions --select 'shops,shop_count,orders_events'")
        assert json.loads((folder / "mine" / "shop_count.json").read_text()) == 2
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
        (folder / "lake" / "landing" / "orders" / "second.ndjson").write_text(free + late)
        guest.run(f"python -c '{AGAIN}'")
        assert latest(instance, "orders_per_hour", "cents_are_positive") == "FAILED"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        story(Path(name))
    print(f"dagster {dg.__version__}: a guest has rows and checks, and sees a check fail")
