"""Streams as assets: what a run of ingest warns of, and what its check compares."""

import json
from typing import Any

import dagster as dg

from keyfold.dagster.assets.shown import StreamAssets
from keyfold.dagster.assets.stream_checks import stream_checks
from keyfold.dagster.assets.streams import stream_assets
from keyfold.dagster.resources import Keyfold
from keyfold.ingestion import batch
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.runners import Runners
from keyfold.runs import ingest
from spark_jobs.streams import METRICS

SHOWN = StreamAssets(METRICS)
_, INGEST = stream_assets(SHOWN)


def metric(number: int) -> str:
    return json.dumps({"timestamp": "2026-01-01T00:00:00Z", "value": number}) + "\n"


def materialize(without_spark: Runners, lakehouse: Lakehouse, **config: Any) -> dg.ExecuteInProcessResult:
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize(
            [INGEST, stream_checks(SHOWN)],
            instance=instance,
            resources={"keyfold": Keyfold(lakehouse, without_spark)},
            run_config={"ops": {"ingest_metrics": {"config": {"settle_seconds": 0.0} | config}}},
            raise_on_error=False,
        )


def told(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """Return the metadata of what the run reported of the event table: a materialization, or an observation."""
    reports = [*result.asset_materializations_for_node("ingest_metrics")]
    reports += [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    return {name: value.value for name, value in reports[0].metadata.items()}


def check(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    evaluations = {check.check_name: check for check in result.get_asset_check_evaluations()}
    return evaluations["every_row_is_accounted_for"]


def test_a_file_that_changed_after_it_was_read_is_a_warning_of_the_run_and_can_be_read_again(
    without_spark, lakehouse, capfd
):
    landing = lakehouse.landing("metrics")
    landing.mkdir(parents=True)
    (landing / "cpu.json").write_text(metric(1))
    assert "warnings" not in told(materialize(without_spark, lakehouse))
    (landing / "cpu.json").write_text(metric(1) + metric(2))
    capfd.readouterr()
    found = told(materialize(without_spark, lakehouse))
    assert (found["files"], found["files_changed"]) == ("0", "1")
    assert "cpu.json grew from 50 to 100 bytes after it was read; it was not read again" in found["warnings"]
    assert any("WARNING" in line and "cpu.json grew" in line for line in capfd.readouterr().err.splitlines())
    again = told(materialize(without_spark, lakehouse, reread_changed=True))
    assert (again["accepted"], again["duplicates"]) == (1, 1)


def test_a_run_that_broke_off_before_its_commits_turns_the_check_red_and_the_next_run_mends_it(
    without_spark, lakehouse, monkeypatch
):
    landing = lakehouse.landing("metrics")
    landing.mkdir(parents=True)
    (landing / "cpu.json").write_text(metric(1) + "rubbish\n")

    def full(point: str) -> None:
        if point == "commit: before":
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(fail_points, "act", full)
        assert not materialize(without_spark, lakehouse).success
    with dg.DagsterInstance.ephemeral() as instance:
        red = dg.materialize(
            [INGEST, stream_checks(SHOWN)],
            instance=instance,
            resources={"keyfold": Keyfold(lakehouse, without_spark)},
            selection=dg.AssetSelection.checks_for_assets("metrics_events"),
            raise_on_error=False,
        )
    assert not check(red).passed
    assert "the last run of ingest was interrupted: the next run finishes it" in (check(red).description or "")
    green = check(materialize(without_spark, lakehouse))
    assert green.passed
    assert green.description == "all 2 rows read are accounted for"


def test_a_check_whose_counts_agree_with_each_other_and_not_with_the_readers_is_red(
    without_spark, lakehouse, monkeypatch
):
    landing = lakehouse.landing("metrics")
    landing.mkdir(parents=True)
    (landing / "cpu.json").write_text(metric(1) + metric(2))
    real = batch._read

    def forgetful(*arguments: Any) -> Any:
        """Loses a file of events, and counts as if it had been none."""
        results = real(*arguments)
        for written in results:
            written.counts += type(written.counts)(accepted=-sum(one.file.rows for one in written.events))
            written.events = []
        return results

    with monkeypatch.context() as patch:
        patch.setattr(batch, "_read", forgetful)
        ingest(lakehouse, METRICS, runners=without_spark)
    found = check(materialize(without_spark, lakehouse))
    assert not found.passed
    assert "2 rows were read, but 0 + 0 are in the tables and 0 were duplicates" in (found.description or "")
