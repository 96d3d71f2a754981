"""When keyed jobs start by themselves: held back by a failed check across runs, and never started twice."""

from dataclasses import dataclass, field

import dagster as dg
import pytest

from keyfold.dagster.automation.schedules import on_checked_events

FAULTS: set[str] = set()
"""Steps that are to fail, by name."""


@dg.multi_asset(
    name="ingest",
    specs=[dg.AssetSpec("events", deps=["landing"]), dg.AssetSpec("quarantine", deps=["landing"])],
)
def ingest():
    yield dg.MaterializeResult("events")
    yield dg.MaterializeResult("quarantine")


@dg.asset_check(asset="events", blocking=True)
def every_row_is_accounted_for():
    return dg.AssetCheckResult(passed="events" not in FAULTS)


@dg.asset_check(asset="events")
def looks_odd():
    return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN)


@dg.multi_asset(
    name="job",
    specs=[
        dg.AssetSpec("summaries", deps=["events"], automation_condition=on_checked_events()),
        dg.AssetSpec("late", deps=["events"], automation_condition=on_checked_events()),
        dg.AssetSpec("side", deps=["summaries"], automation_condition=on_checked_events()),
    ],
)
def job():
    if "job" in FAULTS:
        raise RuntimeError("the step raised")
    for key in ("summaries", "late", "side"):
        yield dg.MaterializeResult(key)


@dg.asset_check(asset="summaries", blocking=True)
def no_event_is_lost():
    return dg.AssetCheckResult(passed=True)


DEFINITIONS = dg.Definitions(
    assets=[dg.AssetSpec("landing"), ingest, job],
    asset_checks=[every_row_is_accounted_for, looks_odd, no_event_is_lost],
    jobs=[
        dg.define_asset_job("group", selection="*"),
        dg.define_asset_job("ingest_alone", selection=["events", "quarantine"]),
        dg.define_asset_job(
            "checks_alone",
            selection=dg.AssetSelection.all() - dg.AssetSelection.all().without_checks(),
        ),
        dg.define_asset_job("tick", selection=["summaries", "late", "side"]),
    ],
)


@dataclass
class Automation:
    """An instance, and the daemon's ticks on it."""

    instance: dg.DagsterInstance
    cursor: object = field(default=None)

    def tick(self) -> set[str]:
        """What a tick asks for."""
        result = dg.evaluate_automation_conditions(DEFINITIONS, self.instance, cursor=self.cursor)  # type: ignore[arg-type]
        self.cursor = result.cursor
        return {key.to_user_string() for key in (dg.AssetKey(name) for name in TABLES) if result.get_num_requested(key)}

    def run(self, name: str) -> None:
        DEFINITIONS.resolve_job_def(name).execute_in_process(instance=self.instance, raise_on_error=False)


TABLES = ("events", "quarantine", "summaries", "late", "side")
JOB = {"summaries", "late", "side"}


@pytest.fixture
def automation():
    FAULTS.clear()
    with dg.DagsterInstance.ephemeral() as instance:
        automation = Automation(instance)
        automation.tick()  # the daemon's first, which only takes its bearings
        yield automation
    FAULTS.clear()


def test_new_events_start_the_job_once_all_its_tables_together(automation):
    automation.run("ingest_alone")
    assert automation.tick() == JOB
    assert automation.tick() == set()


def test_nothing_starts_where_nothing_is_new(automation):
    assert automation.tick() == automation.tick() == set()


def test_a_run_of_the_group_leaves_nothing_to_start(automation):
    for _ in range(3):
        automation.run("group")
        assert automation.tick() == automation.tick() == set()


def test_a_failed_blocking_check_holds_the_job_back_across_runs_and_passing_releases_it(automation):
    FAULTS.add("events")
    automation.run("group")
    assert automation.tick() == automation.tick() == set()
    automation.run("checks_alone")
    assert automation.tick() == set(), "it still fails"
    FAULTS.clear()
    automation.run("checks_alone")
    assert automation.tick() == JOB
    assert automation.tick() == set()


def test_the_next_ingest_that_passes_releases_it_as_well(automation):
    FAULTS.add("events")
    automation.run("ingest_alone")
    assert automation.tick() == set()
    FAULTS.clear()
    automation.run("ingest_alone")
    assert automation.tick() == JOB


def test_a_check_that_passed_on_older_events_does_not_count(automation):
    automation.run("group")
    automation.tick()
    automation.instance.report_runless_asset_event(dg.AssetMaterialization("events"))
    assert automation.tick() == set()
    automation.run("checks_alone")
    assert automation.tick() == JOB


def test_a_job_that_is_part_of_a_run_that_is_not_over_is_not_started_beside_it(automation):
    run = automation.instance.create_run_for_job(
        DEFINITIONS.resolve_job_def("group"), status=dg.DagsterRunStatus.STARTED
    )
    for key in ("summaries", "late", "side"):
        planned = dg.DagsterEvent.build_asset_materialization_planned_event(
            "group", "job", dg._core.events.AssetMaterializationPlannedData(dg.AssetKey(key))
        )
        automation.instance.report_dagster_event(planned, run.run_id)
    automation.run("ingest_alone")
    assert automation.tick() == automation.tick() == set()
    automation.instance.report_run_canceled(run)
    assert automation.tick() == JOB


def test_a_job_that_failed_is_started_once_more_and_not_for_ever(automation):
    FAULTS.add("job")
    automation.run("group")
    assert automation.tick() == JOB
    automation.run("tick")
    assert automation.tick() == automation.tick() == set()


def test_clock_ticks_and_observations_start_nothing(automation):
    automation.run("group")
    automation.tick()
    automation.run("tick")
    assert automation.tick() == set()
    automation.instance.report_runless_asset_event(dg.AssetObservation("events", metadata={"files_after": 1}))
    assert automation.tick() == set()
