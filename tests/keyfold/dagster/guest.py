"""Somebody else's code location, to which the page *Add Keyfold to a code location that you have* is applied as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "add-to-your-dagster.md"

MINE = """
import json
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
    executor=dg.multiprocess_executor.configured({"max_concurrent": 2}),
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

    def __init__(self, folder: Path, bin_folder: Path = Path(sys.executable).parent) -> None:
        self.folder, self._bin = folder, bin_folder
        (folder / "dagster").mkdir()
        (folder / "shop").mkdir()
        (folder / "shop" / "__init__.py").touch()
        (folder / "shop" / "mine.py").write_text(MINE)
        (folder / "pyproject.toml").write_text(PROJECT)
        page = PAGE.read_text(encoding="utf-8")
        for name, code in re.findall(r'```python title="([\w/]+\.py)"\n(.*?)```', page, re.DOTALL):
            (folder / name).write_text(code)
        _, self.commands = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)

    def run(self, command: str) -> str:
        """Run a command of a shell in the folder; return what it printed, or fail with it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD", "DAGSTER"))}
        environment = kept | {
            "DAGSTER_HOME": str(self.folder / "dagster"),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            # As of a project that is installed.
            "PYTHONPATH": str(self.folder),
        }
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
