"""How large batches are is an option of `keyfold run`, since each of them writes state anew."""

from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.errors import KeyfoldError


@pytest.fixture
def asked_for(monkeypatch, tmp_path):
    """Runs the command up to the run, and gives how many bytes a batch was to have."""
    found = []

    def run(spark, lakehouse, job, mode, *, options):
        found.append(options.max_bytes_per_batch)
        raise KeyfoldError("far enough")

    monkeypatch.setattr("keyfold.cli.run.spark_of_environment", lambda *_: nullcontext(None))
    monkeypatch.setattr("keyfold.cli.run.run_job", run)

    def ask(*arguments):
        told = CliRunner().invoke(app, ["run", "ride_summaries", "--home", str(tmp_path / "home"), *arguments])
        return found[-1] if found else told.output

    return ask


def test_a_batch_has_as_many_mebibytes_as_are_given(asked_for):
    assert asked_for("--batch-mib", "4096") == 4 << 30


def test_a_batch_has_128_mebibytes_where_nothing_is_given(asked_for):
    assert asked_for() == 128 << 20


def test_a_batch_of_nothing_is_refused(asked_for):
    assert "--batch-mib" in asked_for("--batch-mib", "0")
