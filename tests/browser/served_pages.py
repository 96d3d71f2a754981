"""Dagster's pages of a lakehouse of its own, served as `make ui` serves them."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from keyfold.dagster.serving.web_server import token_file
from keyfold.lakehouse import Lakehouse

SCRIPTS = Path(__file__).parents[2] / "scripts"
COMES_UP_WITHIN = 240
"""Times a second; a quiet machine takes 20."""


@dataclass(frozen=True)
class Pages:
    """Dagster's pages.

    Attributes:
        url: of the web server, without a slash at its end.
        link: that logs in, as the server has printed it.
        lakehouse: whose assets the pages show.
        environment: variables of the servers, for a command that does what a run of theirs would.
    """

    url: str
    link: str
    lakehouse: Lakehouse
    environment: Mapping[str, str]


@contextmanager
def served_pages(folder: Path) -> Iterator[Pages]:
    """Serve the pages as long as the block runs, on a free port of loopback.

    Args:
        folder: empty, for the lakehouse and what the server tells.
    """
    home, told = folder / "home", folder / "ui.txt"
    home.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD_", "DAGSTER_"))},
        "PORT": str(port),
        "KEYFOLD_HOME": str(home),
        "DAGSTER_HOME": str(home / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "KEYFOLD_SPARK_MASTER": "local[2]",
    }
    with told.open("wb") as output:
        server = subprocess.Popen(
            [str(SCRIPTS / "ui")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        if not _comes_up(server, url, token_file(home / "dagster", port)):
            pytest.fail(f"the pages did not come up; they told:\n{told.read_text(encoding='utf-8', errors='replace')}")
        environment["KEYFOLD_DATA_DOCS_URL"] = f"{url}/data_docs"
        (link,) = re.findall(rf"{url}/\S+", told.read_text(encoding="utf-8"))
        yield Pages(url, link, Lakehouse(home), environment)
    finally:
        _end(server)


def has_loaded(url: str, token: Path) -> bool:
    """Whether the pages answer a program that has the token, with the project's code loaded."""
    query = {"query": "{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"}
    with suppress(httpx.HTTPError, FileNotFoundError), httpx.Client(trust_env=False, timeout=30) as client:
        headers = {"Authorization": f"Bearer {token.read_text(encoding='ascii').strip()}"}
        answer = client.post(f"{url}/graphql", json=query, headers=headers)
        return bool(answer.json()["data"]["repositoriesOrError"].get("nodes"))
    return False


def _comes_up(server: subprocess.Popen[bytes], url: str, token: Path) -> bool:
    """Whether the pages answer before long."""
    for _ in range(COMES_UP_WITHIN):
        if has_loaded(url, token):
            return True
        with suppress(subprocess.TimeoutExpired):
            server.wait(timeout=1)
            return False
    return False


def _end(server: subprocess.Popen[bytes]) -> None:
    """End a server with every process that it has started: an interrupt first, then no mercy."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        server.wait(timeout=20)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
