"""Old history goes, whole; what sensors, conditions and pages read stays, however old."""

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.definitions import defs as project
from keyfold.dagster.automation.upkeep.old_history import keep_days
from keyfold.dagster.automation.upkeep.purging import purge
from keyfold.errors import KeyfoldError

DAY = timedelta(days=1)
EVENTS, SUMMARIES = dg.AssetKey("events"), dg.AssetKey("summaries")
CHECK = dg.AssetCheckKey(EVENTS, "rows_add_up")


@dg.asset
def events(context: dg.AssetExecutionContext):
    context.log.info("a line of log")
    return dg.MaterializeResult(metadata={"rows": 3})


@dg.asset
def summaries(): ...


@dg.asset_check(asset=events)
def rows_add_up():
    return dg.AssetCheckResult(passed=True, metadata={"sample": "x" * 2_000})


DEFINITIONS = dg.Definitions(
    assets=[events, summaries],
    asset_checks=[rows_add_up],
    jobs=[
        dg.define_asset_job("ingest", dg.AssetSelection.assets(events)),
        dg.define_asset_job("summarise", dg.AssetSelection.assets(summaries)),
        dg.define_asset_job("check", dg.AssetSelection.checks(rows_add_up)),
    ],
)


@pytest.fixture
def instance(tmp_path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def run(instance: dg.DagsterInstance, job: str) -> str:
    return DEFINITIONS.resolve_job_def(job).execute_in_process(instance=instance, tags={"who": "me"}).run_id


def make_old(instance: dg.DagsterInstance, days: float = 10) -> None:
    """Have everything that is there have happened some days ago."""
    root = Path(instance.root_directory)
    shift = f"-{days} days"
    with sqlite3.connect(root / "history" / "runs.db") as runs:
        runs.execute("UPDATE runs SET update_timestamp = datetime(update_timestamp, ?)", (shift,))
    with sqlite3.connect(root / "history" / "runs" / "index.db") as index:
        index.execute("UPDATE event_logs SET timestamp = datetime(timestamp, ?)", (shift,))


def rows(instance: dg.DagsterInstance) -> dict[str, int]:
    """How much there is of what grows, counted in the databases themselves."""
    root = Path(instance.root_directory)
    found = {}
    for file, tables in (
        ("runs.db", ("runs", "run_tags")),
        ("runs/index.db", ("event_logs", "asset_event_tags", "asset_check_executions")),
    ):
        database = sqlite3.connect(root / "history" / file)
        for table in tables:
            found[table] = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
        database.close()
    found["files"] = sum(
        1 for path in root.rglob("*") if path.is_file() and path.name[0] != "." and path.parent != root
    )
    return found


def test_old_runs_go_with_their_events_evaluations_files_and_logs(instance):
    run(instance, "ingest")
    one = rows(instance)
    for _ in range(4):
        run(instance, "ingest")
    assert rows(instance)["asset_check_executions"] == 5
    make_old(instance)
    purged = purge(instance, 7 * DAY)
    assert (purged.runs, purged.kept) == (4, 1)
    assert rows(instance) == one
    assert purge(instance, 7 * DAY).runs == 0


def test_what_is_young_or_not_over_stays(instance):
    for _ in range(3):
        run(instance, "ingest")
    young = rows(instance)
    assert purge(instance, 7 * DAY).runs == 0
    assert rows(instance) == young
    going_on = instance.create_run_for_job(DEFINITIONS.resolve_job_def("ingest"), status=dg.DagsterRunStatus.STARTED)
    make_old(instance)
    purge(instance, 7 * DAY)
    assert instance.get_run_by_id(going_on.run_id)


def test_the_newest_of_every_asset_and_check_stays_however_old(instance):
    run(instance, "ingest")
    run(instance, "summarise")
    materialized = run(instance, "ingest")
    evaluated = run(instance, "check")
    summarised = run(instance, "summarise")
    make_old(instance, 400)
    purge(instance, 30 * DAY)
    assert {one.run_id for one in instance.get_runs()} == {materialized, evaluated, summarised}
    event = instance.get_latest_materialization_event(EVENTS)
    assert event is not None
    assert event.run_id == materialized
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["rows"].value == 3
    # What conditions read: the event itself, its data version, and the evaluation with the run that it is of.
    assert instance.get_latest_data_version_record(SUMMARIES) is not None
    found = instance.fetch_materializations(EVENTS, limit=10).records
    assert [record.run_id for record in found] == [materialized]
    evaluation = instance.get_latest_asset_check_evaluation_record(CHECK)
    assert evaluation is not None
    assert evaluation.run_id == evaluated
    assert instance.get_run_by_id(evaluation.run_id)


def test_events_that_no_run_reported_go_but_for_the_newest_of_an_asset(instance):
    landing, other = dg.AssetKey("landing"), dg.AssetKey("other")
    for number in range(5):
        instance.report_runless_asset_event(dg.AssetMaterialization(landing, metadata={"number": number}))
    instance.report_runless_asset_event(dg.AssetObservation(landing))
    instance.report_runless_asset_event(dg.AssetMaterialization(other))
    make_old(instance)
    instance.report_runless_asset_event(dg.AssetMaterialization(other))
    purged = purge(instance, 7 * DAY)
    assert purged.events == 5
    (kept,) = instance.fetch_materializations(landing, limit=10).records
    assert kept.asset_materialization is not None
    assert kept.asset_materialization.metadata["number"].value == 4
    assert len(instance.fetch_observations(landing, limit=10).records) == 1
    assert len(instance.fetch_materializations(other, limit=10).records) == 1


def test_the_job_deletes_them_and_says_what_it_did(instance):
    for _ in range(3):
        run(instance, "ingest")
    make_old(instance, 40)
    job = project.resolve_job_def("purge_history")
    result = job.execute_in_process(instance=instance)
    assert result.success
    told = next(entry.user_message for entry in instance.all_logs(result.run_id) if "runs that" in entry.user_message)
    assert "deleted 2 runs that ended more than 30 days ago" in told


@pytest.mark.parametrize("given", ["a week", "0", "-3", "nan", "inf"])
def test_a_retention_that_is_none_is_an_error_when_definitions_load(given):
    with pytest.raises(KeyfoldError, match="KEYFOLD_KEEP_RUNS_DAYS is"):
        keep_days({"KEYFOLD_KEEP_RUNS_DAYS": given})


def test_the_retention_is_the_environment_s_or_a_month():
    assert keep_days({"KEYFOLD_KEEP_RUNS_DAYS": "7.5"}) == 7.5
    assert keep_days({}) == 30
