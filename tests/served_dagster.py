"""The command of `make ui` as a process: Dagster's pages of a project, on a free port of loopback."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.ports import free_port
from tests.waiting import wait_until

PROJECT = {
    "pyproject.toml": '[tool.keyfold]\nproject = "none:PROJECT"\n',
    "workspace.yaml": "load_from:\n  - python_file: {relative_path: things.py, location_name: elsewhere}\n",
    "things.py": "import dagster as dg\n\ndefs = dg.Definitions([dg.AssetSpec('an_asset')])\n",
}
"""The files of a small project."""

LOCATIONS = "{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus locationOrLoadError { __typename } } } } }"


class ServedDagster(NamedTuple):
    """Dagster's pages.

    Attributes:
        process: the command.
        url: of the pages, without a slash at its end.
        environment: of the command, for one that does what a run of its would.
        output: file with what it says.
    """

    process: subprocess.Popen[Any]
    url: str
    environment: dict[str, str]
    output: Path

    @property
    def home(self) -> Path:
        """Its DAGSTER_HOME."""
        return Path(self.environment["DAGSTER_HOME"])

    @property
    def token(self) -> str:
        return (self.home / "ui.token").read_text()

    @property
    def link(self) -> str:
        """The address that is printed, which logs in."""
        return f"{self.url}/asset-groups?token={self.token}"

    def told(self) -> str:
        return self.output.read_text(errors="replace")

    def ask(self, query: str) -> Any:
        """What GraphQL answers a program that has the token."""
        with httpx.Client(trust_env=False, timeout=60) as client:
            headers = {"Authorization": f"Bearer {self.token}"}
            return client.post(f"{self.url}/graphql", json={"query": query}, headers=headers).json()["data"]

    def locations(self) -> dict[str, str]:
        """What each code location has become; empty while one is being loaded."""
        found = self.ask(LOCATIONS)["workspaceOrError"]["locationEntries"]
        if any(one["loadStatus"] != "LOADED" for one in found):
            return {}
        return {one["name"]: one["locationOrLoadError"]["__typename"] for one in found}


def start_dagster(
    folder: Path, project: Path | None = None, environment: dict[str, str] | None = None, **more: Any
) -> ServedDagster:
    """Start the command as the leader of a session.

    Args:
        folder: of its lakehouse, its DAGSTER_HOME and what it says; of a small project too, if none is given.
        project: the folder of a project.
        environment: further variables.
        more: arguments of `Popen`.
    """
    if project is None:
        project = folder / "project"
        project.mkdir(exist_ok=True)
        for name, content in PROJECT.items():
            if not (project / name).exists():
                (project / name).write_text(content)
    port = free_port()
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD_", "DAGSTER_"))},
        "PORT": str(port),
        "KEYFOLD_PROJECT": str(project),
        "KEYFOLD_HOME": str(folder / "home"),
        "DAGSTER_HOME": str(folder / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "KEYFOLD_SPARK_MASTER": "local[2]",
        **(environment or {}),
    }
    url = f"http://127.0.0.1:{given['PORT']}"
    output = folder / f"{port}.txt"
    with output.open("wb") as out:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, "start_new_session": True, "umask": 0o022}
        command = [sys.executable, "-m", "keyfold.dagster.serving"]
        process = subprocess.Popen(command, env=given, **{**streams, **more})
    return ServedDagster(process, url, {**given, "KEYFOLD_UI_URL": given.get("KEYFOLD_UI_URL", url)}, output)


@contextmanager
def served_dagster(
    folder: Path, project: Path | None = None, environment: dict[str, str] | None = None
) -> Iterator[ServedDagster]:
    """Serve the pages as long as the block runs, with their code loaded."""
    served = start_dagster(folder, project, environment)
    try:
        wait_until(lambda: has_loaded(served), served.told)
        yield served
    finally:
        served.process.terminate()
        served.process.wait(timeout=60)


def has_loaded(served: ServedDagster) -> bool:
    """Whether the pages answer with the project's code loaded."""
    assert served.process.poll() is None, served.told()
    with suppress(httpx.HTTPError, FileNotFoundError):
        return bool(served.locations())
    return False
