"""The rides through Dagster: made, counted, checked, and held back when something is wrong. The demo does it on Spark."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import polars as pl
import pytest
from deltalake import DeltaTable
from pydantic import create_model

from assets.plots.rides import plot_rides
from keyfold.dagster.assets.job_checks import job_checks
from keyfold.dagster.assets.keyed_asset import keyed_assets
from keyfold.dagster.assets.keyed_config import config_for
from keyfold.dagster.assets.shown import JobAssets, StreamAssets
from keyfold.dagster.assets.stream_checks import stream_checks
from keyfold.dagster.assets.streams import stream_assets
from keyfold.dagster.resources import Keyfold, KeyfoldResource
from keyfold.errors import KeyfoldError
from keyfold.keyed.job.parameters import JobParameters
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs import run
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.simulation import SimulationSummary, simulate
from spark_jobs.streams import RIDE_POINTS
from tests.folders import empty_folder, simulate_into
from tests.lake import Lake

# Without the event index: these tests are of the streams, the rides and the checks.
ASSETS = [*stream_assets(StreamAssets(RIDE_POINTS)), keyed_assets(JobAssets(RIDE_SUMMARIES, plot=plot_rides))]
CHECKS = [stream_checks(StreamAssets(RIDE_POINTS)), job_checks(JobAssets(RIDE_SUMMARIES))]
EVENTS = dg.AssetSelection.assets("ride_points_events").required_multi_asset_neighbors()
SUMMARIES = dg.AssetSelection.assets("ride_summaries").required_multi_asset_neighbors()


@pytest.fixture(scope="module")
def spark() -> Runners:
    return Runners("local")


def materialize(
    spark: Runners,
    lakehouse: Lakehouse,
    *,
    job_config: dict[str, Any] | None = None,
    more: Sequence[dg.AssetsDefinition] = (),
    selection: dg.AssetSelection | None = None,
) -> dg.ExecuteInProcessResult:
    ops: dict[str, Any] = {}
    if selection in (None, EVENTS):
        ops["ingest_ride_points"] = {"config": {"settle_seconds": 0}}
    if job_config:
        ops["ride_summaries"] = {"config": job_config}
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize(
            [*ASSETS, *CHECKS, *more],
            instance=instance,
            resources={"keyfold": Keyfold(lakehouse, spark)},
            run_config={"ops": ops},
            selection=selection,
            raise_on_error=False,
        )


def told(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    step = "ingest_ride_points" if asset.startswith("ride_points") else "ride_summaries"
    reports = [*result.asset_materializations_for_node(step)]
    reports += [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    (report,) = [report for report in reports if report.asset_key == dg.AssetKey(asset)]
    return {name: value.value for name, value in report.metadata.items()}


def checks(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {found.check_name: found for found in result.get_asset_check_evaluations()}


def failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_events if event.is_step_failure]
    error = event.step_failure_data.error
    assert error is not None
    return f"{error.message} {error.cause.message if error.cause else ''}"


@pytest.fixture(scope="module")
def simulated(new_home) -> tuple[Lakehouse, SimulationSummary]:
    lakehouse = new_home("rides")
    return lakehouse, simulate_into(lakehouse.landing("ride_points"), "ride_points", size=40, seed=4, files=4)


@pytest.fixture(scope="module")
def first_run(spark, simulated) -> dg.ExecuteInProcessResult:
    lakehouse, _ = simulated
    return materialize(spark, lakehouse)


def test_simulated_rides_become_tables_and_every_check_passes(first_run, simulated):
    lakehouse, made = simulated
    assert first_run.success
    found = checks(first_run)
    assert all(found[name].passed for name in ("every_row_is_accounted_for", "no_event_is_lost", "few_events_are_late"))
    events = told(first_run, "ride_points_events")
    assert events["accepted"] == made.events
    assert events["duplicates"] == made.duplicates
    assert events["quarantined"] == made.malformed + made.unreadable_files
    assert events["dagster/row_count"] == pl.read_delta(str(lakehouse.events("ride_points"))).height == made.events


def test_a_keyed_asset_tells_what_came_in_and_went_out(first_run, simulated):
    lakehouse, made = simulated
    summaries = told(first_run, "ride_summaries")
    assert summaries["events_in"] == made.events
    assert summaries["rows_out"] == summaries["dagster/row_count"] > 0
    assert summaries["mode"] == "incremental"
    assert summaries["keyfold/generation"] == "generation-0001"
    assert len(summaries["batch_seconds"].split()) > 0
    assert summaries["watermark"] > made.start.timestamp()
    assert summaries["dagster/uri"] == lakehouse.table("ride_summaries").as_uri()
    rows = [dict(record.data) for record in summaries["preview"].records]
    assert (len(rows), [*rows[0]][:2]) == (10, ["ride_id", "start_time"])
    assert told(first_run, "long_rides")["rows_out"] == pl.read_delta(str(lakehouse.table("long_rides"))).height


def test_new_parameters_need_a_full_refresh_and_then_stay(spark, first_run, simulated):
    lakehouse, _ = simulated
    assert first_run.success
    only = SUMMARIES.without_checks()
    refused = materialize(spark, lakehouse, job_config={"timeout": "45m"}, selection=only)
    assert "full-refresh" in failure(refused)
    refreshed = materialize(spark, lakehouse, job_config={"timeout": "45m", "mode": "full_refresh"}, selection=only)
    assert told(refreshed, "ride_summaries")["keyfold/generation"] == "generation-0002"
    kept = materialize(spark, lakehouse, selection=only)
    assert told(kept, "ride_summaries")["keyfold/generation"] == "generation-0002"
    live = Lake(lakehouse).live("ride_summaries")
    assert live.record.parameters["timeout"] == "PT45M"
    forgetful = materialize(spark, lakehouse, job_config={"mode": "full_refresh"}, selection=only)
    assert "timeout is 45m in the live generation and 30m by default" in failure(forgetful)
    assert Lake(lakehouse).live("ride_summaries").name == "generation-0002"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"timeout": "soon"}, "timeout is 'soon'"),
        ({"advance_to": "tomorrow"}, "advance_to is 'tomorrow'"),
        ({"key_groups": 0}, "key_groups is 0"),
    ],
)
def test_a_wrong_parameter_fails_before_anything_is_written(spark, lakehouse, config, message):
    result = materialize(
        spark,
        lakehouse,
        job_config=config,
        selection=SUMMARIES.without_checks(),
    )
    assert message in failure(result)
    assert not lakehouse.job("ride_summaries").exists()


def test_an_unknown_parameter_or_choice_is_refused_by_the_launchpad():
    for config in ({"tiemout": "45m"}, {"close": "often"}, {"mode": "again"}):
        with pytest.raises(dg.DagsterInvalidConfigError):
            dg.validate_run_config(
                dg.Definitions(
                    assets=ASSETS, resources={"keyfold": KeyfoldResource()}
                ).resolve_implicit_global_asset_job_def(),
                {"ops": {"ride_summaries": {"config": config}}},
            )


def test_a_folder_of_ones_own_is_read_in_place_of_the_landing_folder(spark, lakehouse, tmp_path, monkeypatch):
    monkeypatch.setenv("KEYFOLD_LANDING", f"ride_points={tmp_path / 'mine'}")
    made = simulate("ride_points", tmp_path / "mine", size=10, files=4)
    result = materialize(spark, lakehouse, selection=EVENTS)
    assert told(result, "ride_points_events")["accepted"] == made.events
    assert checks(result)["every_row_is_accounted_for"].passed


def test_summaries_that_vanish_turn_conservation_red_and_hold_downstream_back(spark, lakehouse):
    @dg.asset(deps=["ride_summaries"])
    def revenue() -> None: ...

    simulate_into(lakehouse.landing("ride_points"), "ride_points", size=10, files=4)
    assert materialize(spark, lakehouse, more=[revenue]).asset_materializations_for_node("revenue")
    ride = pl.read_delta(str(lakehouse.table("ride_summaries")))["ride_id"][0]
    DeltaTable(str(lakehouse.table("ride_summaries"))).delete(f"ride_id = '{ride}'")
    result = materialize(spark, lakehouse, more=[revenue])
    check = checks(result)["no_event_is_lost"]
    assert not check.passed
    assert "≠" in (check.description or "")
    counted: dict[str, Any] = {name: value.value for name, value in check.metadata.items()}
    assert counted["events_read"] > counted["in_outputs"] + counted["open_events"] + counted["late"]
    assert not result.asset_materializations_for_node("revenue")


@empty_folder
def test_a_run_over_nothing_makes_empty_tables_and_checks_say_that_there_is_nothing_to_compare(spark, lakehouse):
    lakehouse.landing("ride_points").mkdir(parents=True)
    result = materialize(spark, lakehouse)
    assert result.success
    assert told(result, "ride_summaries")["batch_seconds"] == ""
    found = checks(result)
    for name in ("every_row_is_accounted_for", "no_event_is_lost"):
        assert found[name].passed
        assert "read yet" in (found[name].description or "")


@empty_folder
def test_warnings_of_a_run_are_in_its_metadata_and_in_its_log(spark, lakehouse, monkeypatch, capfd):
    def warned(*arguments, **settings):
        return replace(run(*arguments, **settings), warnings=("the clock jumped", "idle_timeout is short"))

    monkeypatch.setattr("keyfold.runs.run", warned)
    lakehouse.landing("ride_points").mkdir(parents=True)
    result = materialize(spark, lakehouse, selection=dg.AssetSelection.all().without_checks())
    assert told(result, "ride_summaries")["warnings"] == "the clock jumped\nidle_timeout is short"
    assert "WARNING" in (line := next(line for line in capfd.readouterr().err.splitlines() if "clock jumped" in line))
    assert "ride_summaries" in line


def test_the_check_of_a_table_that_is_not_there_says_so(spark, lakehouse):
    result = materialize(spark, lakehouse, selection=dg.AssetSelection.checks_for_assets("ride_points_events"))
    assert "materialize the event table first" in failure(result)


@empty_folder
def test_a_failed_run_reports_no_table(spark, lakehouse):
    lakehouse.landing("ride_points").mkdir(parents=True)
    broken = lakehouse.events("ride_points")
    broken.mkdir(parents=True)
    (broken / "_delta_log").write_text("not a folder")
    result = materialize(spark, lakehouse)
    assert not result.success
    assert not result.get_asset_materialization_events()


def test_a_parameter_may_not_take_the_name_of_a_run_setting():
    wrong = create_model("Wrong", __base__=JobParameters, mode=(str, "x"))
    with pytest.raises(KeyfoldError, match="rename parameter mode"):
        config_for(replace(RIDE_SUMMARIES, model=wrong))


def test_the_launchpad_says_of_each_parameter_what_changes_it():
    fields = config_for(RIDE_SUMMARIES).model_fields
    for name in ("timeout", "delay", "key_groups"):
        assert f"by a move (`keyfold state move ride_summaries --param {name}=…`)" in str(fields[name].description)
    assert "is changed by mode full_refresh; a run that gives another value fails" in str(fields["time"].description)


def test_a_materialization_tells_the_parameters_that_the_job_ran_with(spark, lakehouse):
    simulate_into(lakehouse.landing("ride_points"), "ride_points", size=10, files=4)
    result = materialize(spark, lakehouse, job_config={"timeout": "45m"})
    assert told(result, "ride_summaries")["parameters"]["timeout"] == "PT45M"
