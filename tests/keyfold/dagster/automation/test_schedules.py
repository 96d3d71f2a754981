"""The schedule of a group advances its jobs, and by night reads, checks and maintains everything."""

from collections.abc import Iterator
from datetime import UTC, datetime, time

import dagster as dg
import pytest

from keyfold.dagster import KeyfoldResource, group_schedule, keyfold_group
from keyfold.dagster.translator import DEFAULT
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS, WEATHER

JOBS = (RIDE_SUMMARIES, MOVING_AVERAGES)
GROUP = keyfold_group("both", streams=[RIDE_POINTS, WEATHER], jobs=JOBS)
DEFINITIONS = dg.Definitions.merge(GROUP, dg.Definitions(resources={"keyfold": KeyfoldResource(runner="local")}))
SCHEDULE = DEFINITIONS.get_schedule_def("both_schedule")
BY_DAY, BY_NIGHT = (datetime(2026, 1, 1, *clock, tzinfo=UTC) for clock in ((2, 20), (2, 30)))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp() as temporary:
        yield temporary


def tick(at: datetime, instance: dg.DagsterInstance) -> object:
    repository = DEFINITIONS.get_repository_def()
    with dg.build_schedule_context(instance, at, repository_def=repository) as context:
        return SCHEDULE(context)


def evaluated(
    instance: dg.DagsterInstance, stream: str, *, passed: bool, name: str = "every_row_is_accounted_for"
) -> None:
    key = DEFAULT.get_asset_key(f"events.{stream}")
    check = dg.AssetCheckEvaluation(asset_key=key, check_name=name, passed=passed)
    instance.report_runless_asset_event(check)


def test_a_job_whose_input_failed_a_blocking_check_is_left_out_and_comes_back(instance):
    # A check that only warns holds nothing back.
    evaluated(instance, "weather", passed=False, name="few_rows_are_quarantined")
    asked = tick(BY_DAY, instance)
    assert isinstance(asked, dg.RunRequest)
    tables = {table.name for job in JOBS for table in job.tables if table.name != job.late_table}
    assert set(asked.asset_selection or ()) == {dg.AssetKey(name) for name in tables}
    evaluated(instance, "weather", passed=False)
    asked = tick(BY_DAY, instance)
    assert isinstance(asked, dg.RunRequest)
    assert set(asked.asset_selection or ()) == {dg.AssetKey(name) for name in ("ride_summaries", "long_rides")}
    evaluated(instance, "ride_points", passed=False)
    held = tick(BY_DAY, instance)
    assert isinstance(held, dg.SkipReason)
    assert "ride_points_events: every_row_is_accounted_for, weather_events: every_row_is" in str(held)
    evaluated(instance, "weather", passed=True)
    assert isinstance(tick(BY_DAY, instance), dg.RunRequest)


def test_a_nightly_run_sees_all_rows_and_maintains_what_it_wrote(instance):
    asked = tick(BY_NIGHT, instance)
    assert isinstance(asked, dg.RunRequest)
    assert asked.tags == {"gx/scope": "full", "keyfold/maintain": "7"}
    assert asked.asset_selection is None
    nodes = {node.name for node in DEFINITIONS.resolve_job_def(SCHEDULE.job_name).nodes}
    assert {"ingest_weather", "ride_summaries", "moving_averages_checks"} <= nodes


def test_a_schedule_is_off_until_it_is_switched_on_and_waits_for_its_last_run(instance):
    assert SCHEDULE.default_status is dg.DefaultScheduleStatus.STOPPED
    waiting = begun(instance)
    assert waiting in str(tick(BY_DAY, instance))


def test_the_run_of_the_night_waits_for_the_last_one_of_a_night_alone(instance):
    begun(instance)
    asked = tick(BY_NIGHT, instance)
    assert isinstance(asked, dg.RunRequest)
    waiting = begun(instance, **asked.tags)
    assert waiting in str(tick(BY_NIGHT, instance))


def begun(instance: dg.DagsterInstance, **tags: str) -> str:
    """Begin a run of the schedule, and return its id."""
    job = DEFINITIONS.resolve_job_def(SCHEDULE.job_name)
    tags = {"dagster/schedule_name": SCHEDULE.name, **tags}
    return instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags).run_id


def test_advancing_runs_the_jobs_and_their_checks_alone(instance):
    asked = tick(BY_DAY, instance)
    assert isinstance(asked, dg.RunRequest)
    job = DEFINITIONS.resolve_job_def(SCHEDULE.job_name).get_subset(asset_selection=set(asked.asset_selection or ()))
    nodes = {node.name for node in job.nodes}
    assert {"ride_summaries", "moving_averages", "ride_summaries_checks"} <= nodes
    assert not nodes & {"ingest_ride_points", "ingest_weather"}


def test_a_schedule_ticks_for_what_it_was_asked_to_do_alone():
    never = group_schedule("mine", RIDE_SUMMARIES, cron="0 * * * *", night=None)
    assert never.cron_schedule == ["0 * * * *"]
    only = group_schedule("mine", target=dg.AssetSelection.groups("both"), night=time(4))
    assert only.cron_schedule == ["0 4 * * *"]
