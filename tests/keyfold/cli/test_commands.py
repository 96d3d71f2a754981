"""The command line, as people call it: what it does, and how it says what is wrong. Without Spark."""

import json
import shlex
import time

import pytest

from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.building import build_job
from keyfold.runs import run
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation.telemetry import GEOFENCES
from tests.keyfold.cli.rides import POINT, RIDE
from tests.keyfold.state.job_histories import EVENTS, put


def test_files_are_ingested_summarised_and_shown(keyfold, tmp_path):
    (tmp_path / "landing").mkdir()
    lines = [json.dumps(POINT | point) for point in RIDE]
    (tmp_path / "landing" / "rides.ndjson").write_text("\n".join([*lines, lines[0], "no json"]))

    ingested = json.loads(
        keyfold("ingest", "ride_points", "--settle", "0", "--from", tmp_path / "landing", "--json").stdout
    )
    counts = {name: ingested[name] for name in ("rows_read", "accepted", "quarantined", "duplicates")}
    assert counts == {"rows_read": 5, "accepted": 3, "quarantined": 1, "duplicates": 1}

    ran = json.loads(keyfold("run", "ride_summaries", "--advance-to", "2026-01-01T12:30:00", "--json").stdout)
    assert (ran["events"], ran["rows"]["ride_summaries"], ran["totals"]["open_events"]) == (3, 1, 1)
    assert ran["watermark"] == "2026-01-01T12:30:00.000000Z"

    summary = json.loads(keyfold("show", "ride_summaries", "--json").stdout)
    assert (summary["ride_id"], summary["n_points"], summary["ride_duration_in_secs"]) == ("r1", 2, 250.0)
    assert keyfold("show", "quarantine.ride_points").stdout.endswith("1 of 1 rows\n")

    assert "3 events: 1 ride_summaries; 1 open" in keyfold("journal", "ride_summaries").stdout
    (batch,) = json.loads(keyfold("journal", "ride_points", "--json").stdout)["batches"]
    assert batch["made"].startswith("5 rows: 3 accepted, 1 quarantined, 1 duplicate")


def test_the_command_line_gives_files_the_time_to_settle(keyfold, tmp_path):
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "rides.ndjson").write_text(json.dumps(POINT | RIDE[0]))
    began = time.monotonic()
    keyfold("ingest", "ride_points", "--settle", "1", "--from", tmp_path / "landing")
    assert time.monotonic() - began > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "ride_summaries", "--param", "timeout"), "write it as name=value"),
        (("run", "ride_summaries", "--param", "timeout=soon"), "timeout is 'soon'"),
        (("run", "ride_summaries", "--param", "timeout=1h", "--param", "timeout=late"), "timeout is 'late'"),
        (("run", "ride_summaries", "--param", "patience=1h"), "patience"),
        (("run", "ride_summaries", "--advance-to", "noon"), "--advance-to is 'noon'; give an ISO 8601 time"),
        (("run", "ride_summaries", "--continuous", "--full-refresh"), "a continuous run takes no"),
        (("run", "ride_summaries", "--every", "1", "--with-consumers"), "a continuous run takes no"),
        (("ingest", "ride_points", "--metrics", "9090", "--rebuild"), "a continuous run takes no"),
    ],
)
def test_bad_usage_is_told_with_the_remedy_and_changes_nothing(keyfold, lakehouse, arguments, message):
    told = keyfold(*arguments)
    assert told.exit_code == 2
    assert message in told.stderr
    assert not lakehouse.home.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ingest", "ride_points"), "create it and put files of ride_points into it"),
        (("run", "ride_summaries"), "run `keyfold ingest ride_points --from DIR` first"),
        (("show", "ride_summaries"), "ride_summaries"),
    ],
)
def test_what_cannot_be_done_yet_is_one_message_without_a_traceback(keyfold, arguments, message):
    told = keyfold(*arguments)
    assert told.exit_code == 1
    assert told.stderr.startswith("error: ")
    assert message in told.stderr
    assert "Traceback" not in told.stderr


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
    return live.record.parameters["key_groups"]


def test_what_was_promoted_is_shown_beside_the_defaults(keyfold, promoted):
    listed = {one["name"]: one for one in json.loads(keyfold("jobs", JOB, "--json").stdout)["parameters"]}
    assert {name: (one["default"], one["live"]) for name, one in listed.items()} == {
        "time": ("event", None),
        "key_groups": ("64", "8"),
    }
    assert json.loads(keyfold("plan", JOB, "--json").stdout)["live_parameters"] == {"key_groups": "8"}
    assert "live_parameters:\n  key_groups: 8\n" in keyfold("plan", JOB).stdout


def test_what_a_plan_says_to_do_next_is_a_command_with_all_that_was_given(keyfold, promoted):
    given = ("--param", "key_groups=8", "--partitions", "3")
    planned = json.loads(keyfold("plan", JOB, *given, "--json").stdout)
    assert planned["next"] == promoted.command("state", "move", JOB, *given)
    move = shlex.split(planned["next"])[1:]
    live = live_generation(promoted, JOB)
    for said, applied, is_moved in ((move, False, False), ([*move, "--yes"], True, True)):
        shown = json.loads(keyfold(*said, "--json").stdout)
        assert (shown["applied"], shown["state_rows_before"]) == (applied, 8)
        assert (live_generation(promoted, JOB) != live) == is_moved


@pytest.mark.parametrize("name", ["../x", "B r", "17", "live", "generation-0001", "x" * 65])
def test_a_branch_has_no_name_that_means_another_state(keyfold, promoted, name):
    refused = keyfold("try", JOB, name)
    assert (refused.exit_code, "a name has lower-case letters, digits" in refused.stderr) == (1, True)


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
