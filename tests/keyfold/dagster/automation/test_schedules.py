"""The schedules of a group: one advances its jobs, one reads, checks and maintains everything by night."""

from collections.abc import Iterator

import dagster as dg
import pytest

from keyfold.dagster import KeyfoldResource, advance_schedule, keyfold_group
from keyfold.dagster.translator import DEFAULT
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS, WEATHER

JOBS = (RIDE_SUMMARIES, MOVING_AVERAGES)
GROUP = keyfold_group("both", streams=[RIDE_POINTS, WEATHER], jobs=JOBS)
DEFINITIONS = dg.Definitions.merge(GROUP, dg.Definitions(resources={"keyfold": KeyfoldResource(runner="local")}))
ADVANCE, NIGHTLY = (DEFINITIONS.get_schedule_def(name) for name in ("advance_both", "nightly_both"))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp() as temporary:
        yield temporary


def tick(schedule: dg.ScheduleDefinition, instance: dg.DagsterInstance) -> object:
    repository = DEFINITIONS.get_repository_def()
    with dg.build_schedule_context(instance=instance, repository_def=repository) as context:
        return schedule(context)


def evaluated(
    instance: dg.DagsterInstance, stream: str, *, passed: bool, name: str = "every_row_is_accounted_for"
) -> None:
    key = DEFAULT.get_asset_key(f"events.{stream}")
    check = dg.AssetCheckEvaluation(asset_key=key, check_name=name, passed=passed)
    instance.report_runless_asset_event(check)


def test_a_job_whose_input_failed_a_blocking_check_is_left_out_and_comes_back(instance):
    # A check that only warns holds nothing back.
    evaluated(instance, "weather", passed=False, name="few_rows_are_quarantined")
    asked = tick(ADVANCE, instance)
    assert isinstance(asked, dg.RunRequest)
    assert asked.asset_selection is None
    evaluated(instance, "weather", passed=False)
    asked = tick(ADVANCE, instance)
    assert isinstance(asked, dg.RunRequest)
    assert set(asked.asset_selection or ()) == {dg.AssetKey(name) for name in ("ride_summaries", "long_rides")}
    evaluated(instance, "ride_points", passed=False)
    held = tick(ADVANCE, instance)
    assert isinstance(held, dg.SkipReason)
    assert "ride_points_events: every_row_is_accounted_for, weather_events: every_row_is" in str(held)
    evaluated(instance, "weather", passed=True)
    assert isinstance(tick(ADVANCE, instance), dg.RunRequest)


def test_a_nightly_run_sees_all_rows_and_maintains_what_it_wrote(instance):
    asked = tick(NIGHTLY, instance)
    assert isinstance(asked, dg.RunRequest)
    assert asked.tags == {"gx/scope": "full", "keyfold/maintain": "7"}
    nodes = {node.name for node in DEFINITIONS.resolve_job_def(NIGHTLY.job_name).nodes}
    assert {"ingest_weather", "ride_summaries", "moving_averages_checks"} <= nodes


@pytest.mark.parametrize("schedule", [ADVANCE, NIGHTLY], ids=lambda one: one.name)
def test_a_schedule_is_off_until_it_is_switched_on_and_waits_for_its_last_run(schedule, instance):
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    job = DEFINITIONS.resolve_job_def(schedule.job_name)
    tags = {"dagster/schedule_name": schedule.name}
    waiting = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)
    assert waiting.run_id in str(tick(schedule, instance))


def test_advancing_runs_the_jobs_and_their_checks_alone():
    nodes = {node.name for node in DEFINITIONS.resolve_job_def(ADVANCE.job_name).nodes}
    assert {"ride_summaries", "moving_averages", "ride_summaries_checks"} <= nodes
    assert not nodes & {"ingest_ride_points", "ingest_weather"}
    assert advance_schedule(RIDE_SUMMARIES).name == "advance_ride_summaries"
