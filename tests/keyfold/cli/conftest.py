"""The command line as people call it, on a lakehouse of the test's own, without Spark."""

from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.testing import local_spark


@pytest.fixture
def keyfold(lakehouse, monkeypatch):
    """Calls a command, and gives what it printed and how it ended."""
    for command in ("ingest", "run"):
        monkeypatch.setattr(f"keyfold.cli.{command}.spark_of_environment", lambda *_: nullcontext(local_spark()))
    monkeypatch.setenv("KEYFOLD_HOME", str(lakehouse.home))
    monkeypatch.setenv("COLUMNS", "300")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
