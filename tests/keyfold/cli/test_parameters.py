"""Parameters that a generation has and the code does not: they are shown, and a refresh does not forget them in silence."""

import json

import pytest

from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.building import build_job
from keyfold.runs import run
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation.telemetry import GEOFENCES
from tests.keyfold.state.job_histories import EVENTS, put

JOB = "model_totals"


@pytest.fixture
def promoted(keyfold, lakehouse):
    """A job whose branch with 8 key groups has been made live."""
    put(lakehouse, "sales", EVENTS["sales"](1).head(20))
    run(lakehouse, build_job(JOBS[JOB]))
    for command in (("try", JOB, "eight", "--param", "key_groups=8"), ("promote", JOB, "eight")):
        done = keyfold(*command)
        assert done.exit_code == 0, done.output
    return lakehouse


def groups(lakehouse):
    live = live_generation(lakehouse, JOB)
    assert live is not None
    return live.record["parameters"]["key_groups"]


def test_what_was_promoted_is_shown_beside_the_defaults(keyfold, promoted):
    listed = {one["name"]: one for one in json.loads(keyfold("params", JOB, "--json").stdout)["parameters"]}
    assert {name: (one["default"], one["live"]) for name, one in listed.items()} == {
        "time": ("event", None),
        "key_groups": ("64", "8"),
    }
    assert json.loads(keyfold("plan", JOB, "--json").stdout)["live_parameters"] == {"key_groups": "8"}
    assert "parameter key_groups stays 8 (by default 64)" in keyfold("plan", JOB).stdout


@pytest.mark.parametrize("number", [8, 64])
def test_a_refresh_that_would_forget_what_was_promoted_is_refused_until_it_is_named(keyfold, promoted, number):
    refused = keyfold("run", JOB, "--full-refresh")
    assert refused.exit_code == 1
    assert "key_groups is 8 in the live generation and 64 by default: give key_groups=8 or" in refused.stderr
    assert groups(promoted) == 8
    done = keyfold("run", JOB, "--full-refresh", "--param", f"key_groups={number}")
    assert done.exit_code == 0, done.output
    assert groups(promoted) == number


@pytest.mark.parametrize("command", [("plan", JOB), ("promote", JOB, "eight"), ("state", "prune", JOB)], ids=" ".join)
@pytest.mark.parametrize("holds", [[], ["notes.txt"]], ids=["not there", "of something else"])
def test_a_home_that_is_no_lakehouse_is_refused_and_nothing_is_made_in_it(keyfold, lakehouse, holds, command):
    for name in holds:
        lakehouse.home.mkdir(exist_ok=True)
        (lakehouse.home / name).touch()
    refused = keyfold(*command)
    assert (refused.exit_code, "is no lakehouse: it has neither events nor jobs" in refused.stderr) == (1, True)
    assert [path.name for path in lakehouse.home.glob("*")] == holds


def test_the_path_of_a_file_is_of_the_machine_and_need_not_be_named(keyfold, lakehouse):
    put(lakehouse, "telemetry", EVENTS["telemetry"](1).head(20))
    run(lakehouse, build_job(JOBS["fleet_warnings"], {"geofences": str(GEOFENCES)}))
    done = keyfold("run", "fleet_warnings", "--full-refresh")
    assert done.exit_code == 0, done.output
