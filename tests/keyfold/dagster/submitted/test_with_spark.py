"""A job that spark-submit launches tells what it tells in the run's own process: with a real Spark in both."""

import shutil

import dagster as dg
import pytest

from assets import rides
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from keyfold.dagster.submitted.spark_steps import submitted
from keyfold.dagster.suites import SUITES
from keyfold.ingestion import ingest
from keyfold.lakehouse import Lakehouse
from keyfold.session import SparkSettings
from spark_jobs.jobs.ride_summaries.job import RIDE_SUMMARIES
from spark_jobs.simulation import simulate
from spark_jobs.streams import RIDE_POINTS

SUMMARIES = dg.AssetKey("ride_summaries")
ASSETS = [keyed_assets(rides.JOBS[0], group="rides")]
CHECKS = [
    check
    for check in [conservation_check(RIDE_SUMMARIES), *SUITES]
    if {key.asset_key for key in check.check_keys} == {SUMMARIES}
]
SECRET = "planted-in-this-test"  # noqa: S105
OF_THE_HOME_OR_THE_CLOCK = {"dagster/uri", "seconds", "batch_seconds", "throughput_and_state"}


def ran(assets, checks, instance, **resources):
    job = dg.define_asset_job("summaries", dg.AssetSelection.assets("ride_summaries").required_multi_asset_neighbors())
    definitions = dg.Definitions(assets=assets, asset_checks=checks, resources=resources, jobs=[job])
    result = definitions.resolve_job_def("summaries").execute_in_process(
        instance=instance, run_config={"ops": {"ride_summaries": {"config": {"watermark_delay": "2h"}}}}
    )
    tables = {
        event.asset_key.to_user_string(): event.step_materialization_data.materialization.metadata
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    }
    return tables, {found.check_name: found for found in result.get_asset_check_evaluations()}


def comparable(tables):
    """Metadata by table: values where they are of the data alone."""
    return {
        table: {name: "there" if name in OF_THE_HOME_OR_THE_CLOCK else value for name, value in metadata.items()}
        for table, metadata in tables.items()
    }


# `test_submitted.py` has what comes back of a process, and `tests/test_on_a_cluster.py` a command under spark-submit.
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.one_machine
def test_tables_metadata_and_checks_are_those_of_a_run_in_one_process(spark, tmp_path, monkeypatch, capfd):
    here, there = Lakehouse(tmp_path / "here"), Lakehouse(tmp_path / "there")
    simulate("ride_points", tmp_path / "here" / "landing" / "ride_points", size=20, seed=3, files=4)
    ingest(spark, here, RIDE_POINTS)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    monkeypatch.setenv("KEYFOLD_HOME", str(there.home))
    monkeypatch.setenv("KEYFOLD_SPARK_MASTER", "local[2]")
    monkeypatch.setenv("KEYFOLD_SPARK_CONF", f"spark.driver.memory=1g spark.hadoop.fs.s3a.secret.key={SECRET}")
    with dg.DagsterInstance.ephemeral() as instance:
        expected, checked = ran(ASSETS, CHECKS, instance, spark=spark, lakehouse=here)
    assets, left = submitted(
        ASSETS,
        CHECKS,
        module="dagster_project.definitions",
        settings=SparkSettings.from_environment,
    )
    assert not left
    with dg.DagsterInstance.ephemeral() as instance:
        tables, evaluations = ran(assets, left, instance, lakehouse=there)
        (run,) = instance.get_runs()
        entries = instance.all_logs(run.run_id)
    assert comparable(tables) == comparable(expected)
    assert {"watermark", "rows_out", "preview", "throughput_and_state", "map"} <= tables["ride_summaries"].keys()
    assert evaluations.keys() == checked.keys() >= {"no_event_is_lost", "one_summary_a_ride"}
    for name, found in evaluations.items():
        assert (found.passed, found.severity, found.blocking) == (True, checked[name].severity, checked[name].blocking)
        assert found.metadata.keys() == checked[name].metadata.keys()
    assert evaluations["no_event_is_lost"].description == checked["no_event_is_lost"].description
    batches = [entry.user_message for entry in entries if entry.user_message.startswith("batch 1 of 1, 100%")]
    assert len(batches) == 1, "the log came along"
    assert not any(SECRET in dg.serialize_value(entry) for entry in entries)
    assert SECRET not in "".join(capfd.readouterr())
