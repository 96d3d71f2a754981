"""A project that is made from a file: its sample is a copy of it, and its key is not masked."""

import json
import subprocess
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.cli.new import commands
from keyfold.cli.new.sample import propose
from keyfold.stream import TIMESTAMP

LINES = ["user,at,card,n", "ann,2026-01-01T00:00:00Z,4711,1", "bob,2026-01-01T00:05:00Z,4712,2"]


@pytest.fixture
def downloads(tmp_path):
    """A folder with a sample and with much else, as those are in which samples lie."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / "clicks.csv").write_text("\n".join(LINES) + "\n")
    (folder / "other.csv").write_text("what,else\n1,2\n")
    return folder


def new(*words) -> tuple[int, Any]:
    done = CliRunner().invoke(app, ["new", *map(str, words), "--json"])
    return done.exit_code, json.loads(done.stdout) if done.exit_code == 0 else " ".join(done.stderr.split())


def test_the_demo_of_a_project_reads_the_sample_and_nothing_that_lies_beside_it(downloads, tmp_path):
    code, summary = new(tmp_path / "plant", "--from", downloads / "clicks.csv", "--key", "user")
    assert (code, summary["next"][1]) == (0, "make demo")
    sample = tmp_path / "plant" / "sample"
    assert [path.name for path in sample.iterdir()] == ["clicks.csv"]
    assert (sample / "clicks.csv").read_text() == (downloads / "clicks.csv").read_text()
    printed = subprocess.run(
        ["make", "-n", "demo"], cwd=sample.parent, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert 'keyfold ingest plant --from "sample" --settle 0' in printed


def test_git_ignores_the_copy_of_a_file_and_not_the_example(downloads, tmp_path):
    for name, words, is_ignored in (
        ("mine", ("--from", downloads / "clicks.csv", "--key", "user"), True),
        ("ours", (), False),
    ):
        assert new(tmp_path / name, *words)[0] == 0
        folder = tmp_path / name
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True, timeout=60)
        told = subprocess.run(
            ["git", "status", "--short", "-uall"], cwd=folder, capture_output=True, text=True, timeout=60, check=True
        )
        assert ("sample/" not in told.stdout) == is_ignored
        assert ".gitignore" in told.stdout


def test_a_sample_that_is_too_large_to_be_copied_is_refused_before_anything_is_written(
    downloads, tmp_path, monkeypatch
):
    monkeypatch.setattr(commands, "LARGEST", 64)
    code, message = new(tmp_path / "plant", "--from", downloads / "clicks.csv", "--key", "user")
    assert code == 1
    assert "a sample is copied into the project: give one of at most" in message
    assert not (tmp_path / "plant").exists()


@pytest.mark.parametrize(
    ("key", "private"),
    [("user", ["card"]), ("card", ["user", "card"]), ("n", ["user", "card"])],
)
def test_who_somebody_is_is_private_unless_it_is_the_key_and_what_else_is_said_of_them_always(downloads, key, private):
    proposal = propose(downloads / "clicks.csv", key=key)
    assert [column.name for column in proposal.private] == private


@pytest.mark.parametrize("blank", ["", "  ", "\t", "\r"])
@pytest.mark.parametrize("places", [(0,), (1,), (2,), (4,), (0, 0, 1, 1, 3, 4)])
def test_blank_lines_of_csv_are_no_rows(tmp_path, blank, places):
    lines = ["at,key,n", "2026-01-01T00:00:00Z,a,1", "2026-01-01T00:00:01Z,b,2", "2026-01-01T00:00:02Z,c,3"]
    for place in sorted(places, reverse=True):
        lines.insert(place, blank)
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n", newline="")
    proposal = propose(path)
    assert {column.name: column.kind for column in proposal.columns} == {
        "at": TIMESTAMP,
        "key": pa.string(),
        "n": pa.int64(),
    }
    assert (proposal.time, proposal.key.name) == ("at", "key")
