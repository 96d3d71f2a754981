"""Maintenance in runs with its tag: every table of a step, with its figures on the table's asset."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from deltalake import DeltaTable

from keyfold.dagster.maintenance import MAINTAIN_TAG, maintain_job, maintain_stream
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.translator import DEFAULT
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance.one_table import remember_removals
from keyfold.runners import Runners
from keyfold.storage.place import Place
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS, WEATHER
from tests.made_generations import put_generation


@dg.multi_asset(specs=[dg.AssetSpec(name, skippable=True) for name in ("ride_points_events", "ride_summaries")])
def steps(context: dg.AssetExecutionContext, keyfold: dg.ResourceParam[Keyfold]) -> Iterator[dg.MaterializeResult]:
    """What the steps of two streams and a job do after their work."""
    yield from ()
    for stream in (RIDE_POINTS, WEATHER):
        maintain_stream(context, keyfold.lakehouse, stream, DEFAULT)
    maintain_job(context, keyfold.lakehouse, RIDE_SUMMARIES, DEFAULT)


def append(table: Place, times: int) -> None:
    table.parent.mkdir(parents=True, exist_ok=True)
    for number in range(times):
        rows = pl.DataFrame({"number": [number], "timestamp": [datetime(2026, 1, 1, number, tzinfo=UTC)]})
        rows.write_delta(str(table), mode="append")


def files(table: Path) -> int:
    return len(DeltaTable(str(table)).file_uris())


def remembers(table: Place) -> str | None:
    """For how long a table's log remembers files that were replaced."""
    return DeltaTable(str(table)).metadata().configuration.get("delta.deletedFileRetentionDuration")


@pytest.fixture
def tables(lakehouse: Lakehouse) -> dict[str, Place]:
    ids = {"ride_summaries": "one", "late.ride_summaries": "another"}
    generation = put_generation(lakehouse, "ride_summaries", table_ids=ids)
    found = {
        "events.ride_points": lakehouse.events("ride_points"),
        "quarantine.ride_points": lakehouse.quarantine("ride_points"),
        "ride_summaries": generation.table("ride_summaries"),
        "late.ride_summaries": generation.table("late.ride_summaries"),
    }
    for table in found.values():
        append(table, 3)
    return found


@pytest.fixture
def instance():
    with dg.DagsterInstance.local_temp() as temporary:
        yield temporary


def run(lakehouse: Lakehouse, instance: dg.DagsterInstance, days: str | None = "7") -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [steps],
        instance=instance,
        resources={"keyfold": Keyfold(lakehouse, Runners("local"))},
        tags={} if days is None else {MAINTAIN_TAG: days},
        raise_on_error=False,
    )


def observed(instance: dg.DagsterInstance, asset: str) -> dict[str, object]:
    (record,) = instance.fetch_observations(dg.AssetKey(asset), limit=1).records
    assert record.asset_observation is not None
    return {name: value.value for name, value in record.asset_observation.metadata.items()}


def test_every_table_of_the_group_is_joined_and_its_asset_tells(lakehouse, tables, instance):
    assert run(lakehouse, instance).success
    assert {name: files(table) for name, table in tables.items()} == dict.fromkeys(tables, 1)
    told = observed(instance, "ride_points_events")
    assert (told["files_before"], told["files_after"], told["files_deleted"]) == (3, 1, 0)
    assert told["retention_days"] == 7
    assert observed(instance, "ride_summaries")["files_after"] == 1


def test_what_a_continuous_run_has_tables_forget_within_the_hour_they_remember_for_the_retention_again(
    lakehouse, tables, instance
):
    for table in tables.values():
        remember_removals(table, timedelta(hours=1))
    with lakehouse.ingest("ride_points").exclusive("ingest --continuous"):
        assert run(lakehouse, instance, "2").success
    assert {name: remembers(table) for name, table in tables.items()} == {
        "events.ride_points": "interval 3600 seconds",
        "quarantine.ride_points": "interval 3600 seconds",
        "ride_summaries": "interval 172800 seconds",
        "late.ride_summaries": "interval 172800 seconds",
    }
    assert run(lakehouse, instance, "2").success
    assert {remembers(table) for table in tables.values()} == {"interval 172800 seconds"}


def test_tables_that_are_not_there_yet_are_no_fault(lakehouse, instance):
    assert run(lakehouse, instance).success


def test_a_job_that_runs_elsewhere_is_left_alone_and_the_rest_is_done(lakehouse, tables, instance):
    with lakehouse.job("ride_summaries").exclusive("job ride_summaries"):
        assert run(lakehouse, instance).success
    assert (files(tables["ride_summaries"]), files(tables["events.ride_points"])) == (3, 1)


@pytest.mark.parametrize("days", ["0.5", "nan", "a week", ""])
def test_a_retention_of_less_than_a_day_is_refused(lakehouse, instance, days):
    refused = run(lakehouse, instance, days)
    assert not refused.success
    assert any("give a number of days, 1 or more" in str(event) for event in refused.all_events if event.is_failure)


def test_a_run_without_the_tag_maintains_nothing(lakehouse, tables, instance):
    assert run(lakehouse, instance, None).success
    assert {files(table) for table in tables.values()} == {3}
