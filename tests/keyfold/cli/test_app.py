"""The list of commands is quick and says what they say of themselves; data are printed as text, also of a read-only home."""

import inspect
import io
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

import spark_jobs
from keyfold.cli.app import COMMANDS, GROUPS, app, load, summary
from keyfold.cli.show import show_table
from keyfold.cli.terminal import AS_JSON, cell, message, print_error, report, visible, warn
from keyfold.times import BEGINNING
from spark_jobs.simulation import simulate

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
    assert summary(COMMANDS[name]) == inspect.cleandoc(command.help or "").splitlines()[0]
    assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


def test_the_list_shows_every_command_in_its_group_with_its_whole_summary(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    told = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert [told.index(f" {group}: ") for group in GROUPS] == sorted(told.index(f" {group}: ") for group in GROUPS)
    for group in GROUPS.values():
        lists = " ".join(f"{name} {summary(target)}" for name, target in group.items())
        assert lists in told
    assert "Commands of this project: simulate Write files of simulated events" in told


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


HOSTILE = ["[/nope]", "[bold]x", ":smile:", "\x1b[2J\x1b]0;title\x07", "\u202ereversed", "a\nb", "=1+1", "\x9b31m"]


def printed(*shown):
    console = Console(file=io.StringIO(), width=1_000, force_terminal=True, color_system="truecolor")
    console.print(*shown, soft_wrap=True)
    return console.file.getvalue()  # type: ignore[attr-defined]


@given(st.text())
def test_nothing_but_printable_characters_reaches_a_terminal_and_none_is_lost(text):
    shown = visible(text)
    assert shown.isprintable() or all(one.isprintable() or one in text for one in shown)
    assert "\x1b" not in shown
    assert len(shown) >= len(text)
    assert printed(cell(text)).rstrip("\n") == shown


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))))
def test_text_without_control_characters_stays_as_it_is(text):
    assert visible(text) == text


def test_colours_that_a_library_puts_into_a_message_are_left_out_and_other_sequences_are_shown():
    assert message("\x1b[31mred\x1b[0m\nand \x1b[2Jclear").plain == "red\nand \\x1b[2Jclear"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("as_json", [False, True], ids=["rows", "json"])
@pytest.mark.parametrize("to", [io.StringIO, Terminal])
def test_hostile_values_neither_break_nor_hide_the_rows_of_a_table_and_command_no_terminal(tmp_path, to, as_json):
    pl.DataFrame({"raw": HOSTILE, "models": [[one] for one in HOSTILE]}).write_delta(str(tmp_path / "table"))
    shown = to()
    token = AS_JSON.set(as_json)
    show_table(tmp_path / "table", None, shown)
    AS_JSON.reset(token)
    text = shown.getvalue()
    if as_json and to is Terminal:
        assert visible(text, keep="\n") == text
    elif as_json:
        assert [json.loads(line)["raw"] for line in text.splitlines()] == HOSTILE
    else:
        assert "\x1b]" not in text
        assert to is Terminal or all(
            visible(one) in text for one in [*HOSTILE, f"{len(HOSTILE)} of {len(HOSTILE)} rows"]
        )


def test_messages_of_every_kind_are_text(capsys):
    for text in HOSTILE:
        report({}, text)
        warn([text])
        print_error(text)
        told = capsys.readouterr()
        assert told.out == visible(text, keep="\n") + "\n"
        assert told.err == f"warning: {visible(text, keep=chr(10))}\nerror: {visible(text, keep=chr(10))}\n"


def test_a_summary_is_its_values_below_their_names_and_nothing_of_what_is_empty(capsys):
    at = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    plain = {"job": "\x1b[2J", "rows": 12_345, "share": 1 / 3, "is_live": True, "at": at, "watermark": BEGINNING}
    empty = {"none": None, "text": "", "list": [], "rows_of": {}}
    nested = {"tables": {"late.job": {"added": 0, "columns": {"a_b": 2}}}}
    listed = {"key": ("a", "b"), "next": ["do this", "then"], "samples": pl.DataFrame({"at": [at], "n": [1]})}
    report({**plain, **empty, **nested, **listed})
    assert capsys.readouterr().out.splitlines() == [
        *(
            "job: \\x1b[2J",
            "rows: 12,345",
            "share: 0.333333",
            "is_live: yes",
            "at: 2026-01-02 03:04:05",
            "watermark: not set",
        ),
        *("tables:", "  late.job:", "    added: 0", "    columns:", "      a_b: 2"),
        *("key: a, b", "next:", "  do this", "  then", "samples:", '  {"at":"2026-01-02T03:04:05.000678Z","n":1}'),
    ]


KEYFOLD = Path(sys.executable).with_name("keyfold")


def on_a_read_only(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    mounted = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, str(home), str(KEYFOLD), *arguments, "--home", str(home)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def home(tmp_path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    try:
        probe = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$0"', str(folder)]
        subprocess.run(probe, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a folder, which makes this test's home read-only")
    return folder


def test_ingest_says_in_one_line_that_the_home_cannot_be_written_to(home, tmp_path):
    simulate("ride_points", tmp_path / "landing", size=2, files=4)
    run = on_a_read_only(home, "ingest", "ride_points", "--from", str(tmp_path / "landing"))
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1, run.stderr
    assert (
        "Read-only file system; the lakehouse directory (--home, KEYFOLD_HOME) must be a folder that this user may write to"
        in run.stderr
    )


def test_what_only_reads_works(home):
    run = on_a_read_only(home, "journal", "ride_summaries")
    assert (run.returncode, run.stdout) == (0, "batch  planned at  seconds  read  made\n"), run.stderr
