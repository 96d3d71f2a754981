"""What the machine's monitoring learns of a lakehouse: by the exit code that something is not well, by the output what."""

import json
import os
import stat
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from keyfold.journal.clock import Reading
from keyfold.keyed.generation.batch_records import ClockRecord
from keyfold.runs import health as sampler
from keyfold.runs.health import free_bytes
from keyfold.runs.metrics import MEANING
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from keyfold.times import BEGINNING
from tests.keyfold.cli.rides import POINT, RIDE
from tests.made_generations import plan_of, put_done, put_generation

JOB, STREAM, EVENTS = "ride_summaries", "ride_points", "events.ride_points"
NOW, MINUTE, HOUR, DAY = timedelta(0), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def _a_disk_with_space(monkeypatch):
    monkeypatch.setattr(sampler, "free_bytes", lambda _: 50 * 2**30)


@pytest.fixture
def told(keyfold):
    """Gives the exit code, and what is told of each stream and job, by name."""

    def ask(*arguments):
        answer = keyfold("health", *arguments, "--json")
        whole = json.loads(answer.stdout)
        assert whole["is_well"] == (answer.exit_code == 0)
        return answer.exit_code, {one["name"]: one for one in whole["health"]}

    return ask


def ago(**length):
    return datetime.now(UTC) - timedelta(**length)


def planned_at(batch, moment):
    return plan_of(batch, EVENTS, 3, "a").model_copy(update={"planned_at": moment})


def ingested(keyfold, landing):
    """One ride, ingested now."""
    landing.mkdir()
    (landing / "rides.ndjson").write_text("\n".join(json.dumps(POINT | point) for point in RIDE))
    assert keyfold("ingest", STREAM, "--settle", "0", "--from", landing).exit_code == 0


def test_a_lakehouse_that_ran_a_moment_ago_is_well_whatever_has_not_run_yet(keyfold, told, tmp_path):
    ingested(keyfold, tmp_path / "landing")
    assert keyfold("run", JOB).exit_code == 0
    code, found = told("--stale-after", "1e6")
    assert code == 0
    assert {found[name]["state"] for name in (STREAM, JOB)} == {"ok"}
    assert {one["state"] for name, one in found.items() if name not in (STREAM, JOB, "disk")} == {"new"}
    assert found[JOB]["watermark"] == json.loads(keyfold("run", JOB, "--json").stdout)["watermark"]
    shown = keyfold("health", JOB, "--stale-after", "1e6").stdout
    assert "50.0 GiB free\n" in shown
    assert STREAM not in shown


def test_a_watermark_that_is_far_behind_and_a_stream_that_got_nothing_are_stale(keyfold, told, tmp_path):
    ingested(keyfold, tmp_path / "landing")
    assert keyfold("run", JOB).exit_code == 0
    # Its rides are of January.
    code, found = told(JOB)
    assert (code, found[JOB]["state"]) == (1, "stale")
    assert "behind the clock" in found[JOB]["detail"]
    assert told(STREAM)[0] == 0
    code, found = told(STREAM, "--stale-after", "0")
    assert (code, found[STREAM]["state"]) == (1, "stale")
    assert f"does anything start `keyfold ingest {STREAM} --home " in found[STREAM]["detail"]


@pytest.mark.parametrize(
    ("done", "reached", "looked", "planned", "held", "state", "detail"),
    [
        (3 * DAY, 5 * MINUTE, None, None, False, "stale", "the last run was 3 days, 0:00:0"),
        (3 * DAY, 5 * MINUTE, MINUTE, None, False, "ok", ""),  # it looked in vain
        (NOW, 25 * HOUR, None, None, False, "ok", ""),
        (NOW, 27 * HOUR, None, None, False, "stale", "the watermark is 1 day, 3:00:0"),
        (NOW, None, None, None, False, "ok", ""),  # no event yet
        (3 * DAY, 5 * MINUTE, None, None, True, "running", ""),
        (9 * MINUTE, 9 * MINUTE, None, 4 * MINUTE, False, "interrupted", "a run ended within a batch planned 0:04:0"),
        (9 * MINUTE, 9 * MINUTE, None, 4 * MINUTE, True, "running", ""),
        (9 * MINUTE, 9 * MINUTE, None, 6 * MINUTE, True, "stalled", "a batch was planned 0:06:0"),
    ],
)
def test_the_state_of_a_job_is_of_its_last_run_its_watermark_and_its_plans(
    told, lakehouse, done, reached, looked, planned, held, state, detail
):
    generation, now = put_generation(lakehouse, JOB), datetime.now(UTC)
    watermark = now - reached if reached else BEGINNING
    put_done(generation, 0, finished_at=now - done, watermark=watermark)
    if looked is not None:
        reading = Reading(wall=now - looked, uptime=0, boot="")
        generation.write_clock(ClockRecord(watermark=watermark, processing_time=reading.wall, reading=reading))
    if planned is not None:
        generation.journal.write_plans([planned_at(1, now - planned)])
    with lakehouse.job(JOB).exclusive("a run") if held else nullcontext():
        code, found = told(JOB)
    assert (code, found[JOB]["state"]) == (0 if state in ("ok", "running") else 1, state)
    assert found[JOB]["detail"].startswith(detail)
    assert bool(found[JOB]["detail"]) is bool(detail)
    assert (found[JOB]["watermark"] is None) is (reached is None)


@pytest.mark.parametrize("held", [(False, True), (True, False)], ids=["begins", "ends"])
def test_a_run_that_begins_or_ends_while_it_is_looked_at_is_not_an_interrupted_one(told, lakehouse, monkeypatch, held):
    put_generation(lakehouse, JOB).journal.write_plans([planned_at(0, ago(minutes=1))])
    looks = iter(held)
    monkeypatch.setattr(DiskPath, "is_held", lambda _: next(looks))
    assert told(JOB)[1][JOB]["state"] == "running"


def test_a_run_that_has_failed_is_interrupted_until_one_succeeds(keyfold, told, tmp_path, monkeypatch):
    ingested(keyfold, tmp_path / "landing")
    with monkeypatch.context() as broken:
        broken.setattr("keyfold.journal.Journal.write_done", fail)
        assert keyfold("run", JOB).exit_code == 1
    code, found = told(JOB)
    assert (code, found[JOB]["state"]) == (1, "interrupted")
    assert keyfold("run", JOB).exit_code == 0
    assert told(JOB, "--stale-after", "1e6")[0] == 0


def fail(*_):
    raise OSError(28, "No space left on device", "journal")


def test_a_damaged_journal_is_told_beside_the_others(told, lakehouse):
    put_done(put_generation(lakehouse, JOB), 0, finished_at=ago(), watermark=ago())
    generation = put_generation(lakehouse, "anomaly_predictions")
    put_done(generation, 0)
    (record,) = generation.journal.folder.glob("*.done.json")
    record.write_text("{")
    code, found = told()
    assert (code, found["anomaly_predictions"]["state"], found[JOB]["state"]) == (1, "damaged", "ok")
    assert "restore it from a backup" in found["anomaly_predictions"]["detail"]


def test_a_disk_that_is_almost_full_is_not_well(keyfold, told, lakehouse, monkeypatch):
    put_done(put_generation(lakehouse, JOB), 0, finished_at=ago(), watermark=ago())
    assert told(JOB)[0] == 0
    monkeypatch.setattr(sampler, "free_bytes", lambda _: 2**29)
    assert told(JOB)[0] == 1
    assert "0.5 GiB free, less than 1: make room" in keyfold("health", JOB).stdout


def test_the_free_space_is_that_of_the_lakehouse_s_disk_and_unknown_for_a_bucket(tmp_path):
    disk = os.statvfs(tmp_path)
    found = free_bytes(tmp_path)
    assert found is not None
    assert abs(found - disk.f_bavail * disk.f_frsize) < 2**28
    assert free_bytes(to_place("s3a://lake/home")) is None


def test_a_directory_without_a_lakehouse_is_not_well_and_an_unknown_name_is_bad_usage(keyfold, lakehouse):
    answer = keyfold("health")
    assert answer.exit_code == 1
    assert "there is no lakehouse" in answer.stderr
    assert keyfold("health", "ride_sumaries").exit_code == 2


def test_the_metrics_of_bounded_runs_are_written_for_another_user_s_collector(keyfold, told, tmp_path):
    ingested(keyfold, tmp_path / "landing")
    assert keyfold("run", JOB).exit_code == 0
    file = tmp_path / "keyfold.prom"
    told("--textfile", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    samples = {
        (one.name, *sorted(one.labels.values())): one.value
        for family in text_string_to_metric_families(file.read_text())
        for one in family.samples
    }
    assert samples["keyfold_read_rows_total", "accepted", STREAM] == len(RIDE)
    assert samples["keyfold_events_total", JOB] == len(RIDE)
    assert samples["keyfold_batches_total", JOB] == 1
    assert samples["keyfold_pending_seconds", "vehicle_trips"] == 0  # of a job that has not run yet, too
    assert {name for name, *_ in samples} <= set(MEANING)
