"""A continuous run reports itself to a Dagster instance, and runs that Dagster starts leave it alone."""

import importlib
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import dagster as dg
import polars as pl
import pytest

from keyfold import Project
from keyfold.dagster import KeyfoldTranslator, run_reports
from keyfold.dagster.assets.keyed_asset import keyed_assets
from keyfold.dagster.assets.metadata import written_batches
from keyfold.dagster.assets.shown import JobAssets, StreamAssets
from keyfold.dagster.assets.streams import stream_assets
from keyfold.dagster.resources import Keyfold
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest, reports_to_dagster
from keyfold.runs.reports_to_dagster import reported, written_by_ingest, written_by_job
from spark_jobs.streams import METRICS
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import LOCAL
from tests.landings import AT_ONCE, EVENTS, event, going_on
from tests.landings import land as land_file
from tests.waiting import wait_until

SECRET = "postgresql://keyfold:hunter2@db/dagster"  # noqa: S105


@pytest.fixture
def instance(tmp_path, monkeypatch):
    home = tmp_path / "dagster"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.from_config(str(home)) as opened:
        yield opened


def reports(instance: dg.DagsterInstance, asset: str) -> list[dg.AssetMaterialization]:
    """What was reported of an asset, oldest first."""
    found = instance.fetch_materializations(dg.AssetKey(asset), limit=99, ascending=True).records
    return [one.asset_materialization for one in found if one.asset_materialization is not None]


def told(instance: dg.DagsterInstance, asset: str) -> dict[str, Any]:
    return {name: one.value for name, one in reports(instance, asset)[-1].metadata.items()}


def test_continuous_ingest_reports_its_rows_and_the_next_one_only_what_is_new(lakehouse, landing, instance):
    land_file(landing / "a.ndjson", [event(seq=1), event(seq=2), event(user="nobody", seq=None)])
    with going_on(lakehouse, landing):
        pass
    assert told(instance, "clicks_events")["dagster/row_count"] == pl.read_delta(str(lakehouse.events("clicks"))).height
    assert told(instance, "clicks_events")["rows_read"] == 3
    # No group asks for it as an asset.
    assert not instance.has_asset_key(dg.AssetKey("clicks_quarantine"))
    with going_on(lakehouse, landing):
        pass
    assert len(reports(instance, "clicks_events")) == 1
    land_file(landing / "b.ndjson", [event(seq=3)])
    with going_on(lakehouse, landing):
        pass
    assert (told(instance, "clicks_events")["rows_read"], len(reports(instance, "clicks_events"))) == (1, 2)


class Prefixed(KeyfoldTranslator):
    def get_asset_key(self, table: str) -> dg.AssetKey:
        return dg.AssetKey(["city", table.removeprefix("events.")])


TRANSLATOR, PROJECT = Prefixed(), Project("a:STREAMS", "a:JOBS", translator_at=f"{__name__}:TRANSLATOR")


def test_the_keys_are_those_of_the_project_s_translator(lakehouse, landing, instance, monkeypatch):
    monkeypatch.setattr(run_reports, "current_project", lambda: PROJECT)
    land_file(landing / "a.ndjson", [event(seq=1)])
    with going_on(lakehouse, landing):
        pass
    made = instance.fetch_materializations(dg.AssetKey(["city", "clicks"]), limit=9).records
    assert (len(made), reports(instance, "clicks_events")) == (1, [])


def test_a_translator_that_is_none_is_a_warning(lakehouse, landing, instance, monkeypatch):
    monkeypatch.setattr(run_reports, "current_project", lambda: replace(PROJECT, translator_at=f"{__name__}:dg"))
    land_file(landing / "a.ndjson", [event(seq=1)])
    warned = list[str]()
    with going_on(lakehouse, landing, on_warning=warned.append):
        pass
    assert [one for one in warned if "test_run_reports:dg is no keyfold.dagster.KeyfoldTranslator" in one]


def test_a_job_reports_each_batch_once_with_its_watermark_while_it_runs(lakehouse, land, minutes, instance):
    land(("ann", 1), ("bob", 21))
    run_job(lakehouse, windows(), runners=LOCAL)
    with reported(lambda: written_by_job(lakehouse, "windows"), every=0.05):
        wait_until(lambda: len(reports(instance, "windows")) == 1)
        land(("ann", 22), ("bob", 41))
        run_job(lakehouse, windows(), runners=LOCAL)
        wait_until(lambda: len(reports(instance, "windows")) == 2)
    first, second = reports(instance, "windows")
    # The newest event less the job's delay of five minutes.
    assert second.metadata["watermark"].value == minutes(36).timestamp()
    assert second.metadata["events_in"].value == 2
    assert second.metadata["open_events"].value == 1
    assert second.metadata["dagster/row_count"].value == pl.read_delta(str(lakehouse.table("windows"))).height == 3
    # By which suites find the rows of these batches.
    written = written_batches(second)
    assert written is not None
    assert (written.since, written.until) == (
        int(str(first.metadata["keyfold/batch"].value)),
        int(str(second.metadata["keyfold/batch"].value)),
    )


@pytest.mark.parametrize("point", ["done: after", "commit: one table"])
def test_a_batch_is_reported_with_all_of_its_rows_once_its_tables_have_them(
    lakehouse, land, landing, instance, cut_power, point, tmp_path
):
    ingested = Lakehouse(tmp_path / "ingested")

    def run():
        run_job(lakehouse, windows(), runners=LOCAL)

    def take_in():
        ingest(ingested, EVENTS, landing, settle=AT_ONCE, runners=LOCAL)

    def report():
        with (
            reported(lambda: written_by_job(lakehouse, "windows")),
            reported(lambda: written_by_ingest(ingested, EVENTS)),
        ):
            pass

    land(("ann", 1), ("bob", 21))
    run()
    report()
    land(("ann", 22), ("bob", 41))
    land_file(landing / "a.ndjson", [event(seq=1), event(seq=2)])
    (landing / "b.ndjson").write_text("no event\n")
    # A job whose late table gets no row is whole once the other table has its commit.
    assert cut_power("done: after", run)
    assert cut_power(point, take_in)
    report()
    # The journals have a batch that the tables lack.
    assert (len(reports(instance, "windows")), reports(instance, "clicks_events")) == (1, [])
    run()
    take_in()
    report()
    assert told(instance, "windows")["dagster/row_count"] == pl.read_delta(str(lakehouse.table("windows"))).height == 3
    assert told(instance, "clicks_events")["dagster/row_count"] == 2


def test_after_a_run_of_dagster_only_what_came_since_is_reported(lakehouse, land, instance):
    declared = windows()
    land(("ann", 1), ("bob", 21))
    resources = {"keyfold": Keyfold(lakehouse, LOCAL)}
    dg.materialize([keyed_assets(JobAssets(declared))], instance=instance, resources=resources)
    with reported(lambda: written_by_job(lakehouse, "windows")):
        pass
    assert len(reports(instance, "windows")) == 1
    land(("ann", 22))
    run_job(lakehouse, windows(), runners=LOCAL)
    for _ in range(2):
        with reported(lambda: written_by_job(lakehouse, "windows")):
            pass
    # The batch wrote no row.
    (observed,) = instance.fetch_observations(dg.AssetKey("windows"), limit=9).records
    assert observed.asset_observation is not None
    assert observed.asset_observation.metadata["events_in"].value == 1
    assert len(reports(instance, "windows")) == 1
    land(("bob", 60))
    run_job(lakehouse, windows(), runners=LOCAL)
    with reported(lambda: written_by_job(lakehouse, "windows")):
        pass
    assert (len(reports(instance, "windows")), told(instance, "windows")["events_in"]) == (2, 2)


def test_a_database_that_fails_is_warned_of_once_without_its_address_and_reported_to_when_it_is_back(
    lakehouse, land, instance, monkeypatch
):
    calls, taken, warnings = [], [], list[str]()

    class Reports:
        def report(self, written):
            calls.append(written)
            if len(calls) < 4:
                raise OSError(SECRET)
            taken.append(written.batch)

    module = SimpleNamespace(DagsterReports=Reports)
    monkeypatch.setattr(reports_to_dagster, "importlib", SimpleNamespace(import_module=lambda _: module))
    land(("ann", 1))
    run_job(lakehouse, windows(), runners=LOCAL)
    with reported(lambda: written_by_job(lakehouse, "windows"), warnings.append, every=0.01):
        wait_until(lambda: taken)
    assert set(taken) == {0}
    assert warnings == ["this run cannot be reported to Dagster (OSError); see the database of DAGSTER_HOME"]


def test_without_an_instance_dagster_is_not_loaded(lakehouse, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    loaded = list[str]()
    monkeypatch.setattr(importlib, "import_module", loaded.append)
    with reported(lambda: pytest.fail("nobody asks"), every=0.01):
        pass
    assert not loaded


@pytest.mark.parametrize(
    "tag", ["dagster/sensor_name", "dagster/schedule_name", "dagster/from_automation_condition", ""]
)
def test_a_run_that_dagster_starts_leaves_a_continuous_one_alone_and_one_by_hand_says_what_holds_it(lakehouse, tag):
    _, ingest = stream_assets(StreamAssets(METRICS))
    folder = lakehouse.landing("metrics")
    folder.mkdir(parents=True)
    (folder / "a.ndjson").write_text(json.dumps({"timestamp": "2026-01-01T00:00:00Z", "value": 1}) + "\n")

    def materialize():
        with dg.DagsterInstance.ephemeral() as instance:
            return dg.materialize(
                [ingest],
                instance=instance,
                resources={"keyfold": Keyfold(lakehouse, LOCAL)},
                run_config={"ops": {"ingest_metrics": {"config": {"settle_seconds": 0.0}}}},
                tags={tag: "any"} if tag else {},
                raise_on_error=False,
            )

    with lakehouse.ingest("metrics").exclusive("ingest of metrics"):
        held = materialize()
    assert held.success == bool(tag)
    assert not held.asset_materializations_for_node("ingest_metrics")
    assert len(materialize().asset_materializations_for_node("ingest_metrics")) == 1
