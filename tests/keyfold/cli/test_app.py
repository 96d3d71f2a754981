"""The list of commands: it is quick because it imports none of them, and it says what they say of themselves."""

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import spark_jobs
from keyfold.cli.app import COMMANDS, GROUPS, app, load

HEAVY = {"pyspark", "polars", "pyarrow", "deltalake", "pydantic", "numpy", "pandas", "rich", "httpx"}
PRINT_WHAT_WAS_LOADED = """
import contextlib, io, sys
from keyfold.cli.app import app
shown = io.StringIO()
with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
    app({arguments!r})
assert "ingest" in shown.getvalue(), shown.getvalue()
print(*{{name.partition(".")[0] for name in sys.modules}})
"""


def modules_after(*arguments: str) -> set[str]:
    code = PRINT_WHAT_WAS_LOADED.format(arguments=list(arguments))
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_the_help_imports_nothing_heavy():
    assert not modules_after("--help") & HEAVY


def test_a_commands_own_help_does_so_that_what_is_looked_for_would_be_seen():
    assert {"polars", "pyarrow"} <= modules_after("ingest", "--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_it_says_of_itself(name):
    command = load(name)
    assert COMMANDS[name].summary == inspect.cleandoc(command.help or "").splitlines()[0]
    assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


def test_the_list_shows_every_command_in_its_group_with_its_whole_summary(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    told = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert [told.index(f" {group}: ") for group in GROUPS] == sorted(told.index(f" {group}: ") for group in GROUPS)
    for group in GROUPS.values():
        lists = " ".join(f"{name} {listed.summary}" for name, listed in group.items())
        assert lists in told
    assert "Commands of this project: simulate " in told


def test_a_command_that_is_not_there_is_bad_usage_and_the_nearest_is_named():
    told = CliRunner().invoke(app, ["runn"])
    assert told.exit_code == 2
    assert "No such command 'runn'. Did you mean 'run'?" in told.stderr


def test_a_stream_that_cannot_be_imported_is_told_in_one_line(tmp_path):
    """In a copy of the package: a stream's file is found by lying there."""
    shutil.copytree(Path(spark_jobs.__file__).parent, tmp_path / "spark_jobs")
    (tmp_path / "spark_jobs" / "streams" / "half.py").write_text("import no_such_library\n")
    command = "import sys; sys.path.insert(0, '.'); from keyfold.cli.app import app; app(['run', 'ride_summaries'])"
    ran = subprocess.run([sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith(
        f"error: {tmp_path}/spark_jobs/streams/half.py cannot be imported: ModuleNotFoundError"
    )
    assert len(ran.stderr.splitlines()) == 1
