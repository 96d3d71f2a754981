"""`keyfold simulate`, as people call it."""

import json

import pytest
from typer.testing import CliRunner

from keyfold.cli.app import app


def simulate(*arguments: object):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def test_without_a_stream_it_simulates_rides(tmp_path):
    told = simulate("--to", tmp_path, "--size", 10, "--seed", 3, "--json")
    assert told.exit_code == 0
    summary = json.loads(told.stdout)
    assert (summary["stream"], summary["size"]) == ("ride_points", 10)
    assert len(list(tmp_path.iterdir())) == summary["files"] + summary["unreadable_files"]


@pytest.mark.parametrize(
    ("stream", "size", "counted"),
    [("ride_points", 10, "rides"), ("weather", 2, "stations"), ("metrics", 2, "series"), ("telemetry", 2, "vehicles")],
)
def test_a_stream_and_its_size_are_options(tmp_path, stream, size, counted):
    told = simulate("--to", tmp_path, "--stream", stream, "--size", size)
    assert told.exit_code == 0
    assert f"rows of {size} {counted} in" in told.stdout


@pytest.mark.parametrize(
    "arguments",
    [("--stream", "tides"), ("--size", 0)],
)
def test_what_does_not_fit_is_bad_usage_and_writes_nothing(tmp_path, arguments):
    assert simulate("--to", tmp_path / "landing", *arguments).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_the_help_says_what_size_counts_for_each_stream():
    told = " ".join(simulate("--help").stdout.replace("│", " ").split())
    for each in ("rides (ride_points", "stations (weather", "series (metrics", "vehicles (telemetry"):
        assert each in told
