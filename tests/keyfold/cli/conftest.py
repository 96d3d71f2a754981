"""The command line as people call it, on a lakehouse of the test's own, without Spark."""

import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.runners import Runners


@pytest.fixture
def keyfold(lakehouse, monkeypatch):
    """Calls a command, and gives what it printed and how it ended."""
    for command in ("ingest", "run"):
        monkeypatch.setattr(f"keyfold.cli.{command}.runners_for", lambda *_: Runners("local"))
    monkeypatch.setenv("KEYFOLD_HOME", str(lakehouse.home))
    monkeypatch.setenv("COLUMNS", "300")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
