"""The suites' rows: those that the run wrote, whatever has become of its files."""

import json
from collections import defaultdict
from typing import Any, NoReturn

import dagster as dg
import polars as pl
import pyarrow as pa
from deltalake import write_deltalake

from keyfold.dagster.assets.keyed_asset import keyed_assets
from keyfold.dagster.assets.shown import JobAssets, StreamAssets
from keyfold.dagster.assets.streams import stream_assets
from keyfold.dagster.quality import validation
from keyfold.dagster.quality.asset_checks import gx_checks
from keyfold.dagster.quality.outcome import Outcome
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.suites import rows_written, suite_checks, whole_table
from keyfold.keyed.job.building import build_job
from keyfold.lakehouse import Lakehouse
from keyfold.maintenance import MaintainedTable, maintain
from keyfold.project import project_suites
from keyfold.runners import Runners
from keyfold.storage.disk_path import DiskPath
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import RIDE_POINTS
from tests.lake import Lake

ASSETS = [*stream_assets(StreamAssets(RIDE_POINTS)), keyed_assets(JobAssets(RIDE_SUMMARIES))]
SUITE = gx_checks(
    suite_checks(RIDE_SUMMARIES, next(iter(RIDE_SUMMARIES.tables)), project_suites()["ride_summaries"]),
    required_resource_keys={"keyfold"},
)
TABLES = dg.AssetSelection.all().without_checks()
CHECKS = dg.AssetSelection.checks_for_assets("ride_summaries")
POINT = {"latitude": 40.7, "longitude": -74.0, "meter_reading": 1.5, "meter_increment": 0.1, "passenger_count": 1}


def land(lakehouse: Lakehouse, *numbers: int) -> None:
    """A ride of two points for each number, an hour after the one before it."""
    points = [
        POINT
        | {"ride_id": f"r{number}", "point_idx": at, "timestamp": f"2026-01-01T{number:02}:0{at}:00Z"}
        | {"ride_status": status}
        for number in numbers
        for at, status in enumerate(("pickup", "dropoff"))
    ]
    folder = lakehouse.landing("ride_points")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{numbers[0]}.ndjson").write_text("".join(json.dumps(point) + "\n" for point in points))


def run(lakehouse: Lakehouse, instance: dg.DagsterInstance, selection: dg.AssetSelection) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [*ASSETS, SUITE],
        instance=instance,
        resources={"keyfold": Keyfold(lakehouse, Runners("local"))},
        run_config={"ops": {"ingest_ride_points": {"config": {"settle_seconds": 0}}}} if selection is TABLES else {},
        selection=selection,
    )


def test_a_run_that_wrote_one_row_is_checked_on_one_row_though_maintenance_came_between(lakehouse):
    with dg.DagsterInstance.ephemeral() as instance:
        land(lakehouse, 1, 2, 3)
        run(lakehouse, instance, TABLES)
        assert rows_seen(run(lakehouse, instance, CHECKS)) == {"full": {3}}
        land(lakehouse, 4)
        run(lakehouse, instance, TABLES)
        live = Lake(lakehouse).live("ride_summaries")
        assert maintain(lakehouse, MaintainedTable("ride_summaries", live.table("ride_summaries"))).files_after == 1
        assert rows_seen(run(lakehouse, instance, CHECKS)) == {"incremental": {1}, "full": {4}}


def rows_seen(result: dg.ExecuteInProcessResult) -> dict[Any, set[Any]]:
    """By scope, of how many rows the checks say that they have seen."""
    seen = defaultdict(set)
    for check in result.get_asset_check_evaluations():
        if "rows" in check.metadata:
            seen[check.metadata["scope"].value].add(check.metadata["rows"].value)
    return dict(seen)


def test_of_rows_of_one_key_that_several_batches_wrote_the_last_counts(tmp_path):
    files: dict[int, list[DiskPath]] = {}
    for batch, rows in {3: {"ann": 1, "bob": 1}, 4: {"ann": 2}}.items():
        path = tmp_path / f"{batch}.parquet"
        pl.DataFrame({"user": list(rows), "clicks": list(rows.values())}).write_parquet(path)
        files[batch] = [path]
    columns = pa.schema([("user", pa.string()), ("clicks", pa.int64())])

    def written(files: dict[int, list[DiskPath]], *key: str) -> list[tuple[Any, ...]]:
        return sorted(rows_written(columns, files, key).collect(engine="streaming").rows())

    assert written(files, "user") == [("ann", 2), ("bob", 1)]
    assert written(files) == [("ann", 1), ("ann", 2), ("bob", 1)]
    assert written({}) == []


def test_of_many_rows_of_a_key_in_many_files_the_last_counts(tmp_path):
    files = {batch: [tmp_path / f"{batch}.parquet"] for batch in range(5)}
    for batch, (path,) in files.items():
        keys = range(batch * 10_000, 100_000)
        pl.DataFrame({"user": keys, "clicks": [batch] * len(keys)}).write_parquet(path, row_group_size=5_000)
    columns = pa.schema([("user", pa.int64()), ("clicks", pa.int64())])
    found = rows_written(columns, files, ["user"]).collect(engine="streaming").sort("user")
    assert found["clicks"].to_list() == [min(user // 10_000, 4) for user in range(100_000)]


def test_no_shipped_suite_waits_for_great_expectations_to_be_imported(monkeypatch):
    def refuse(found: Outcome, *_: Any) -> NoReturn:
        raise AssertionError(found.expectation)

    monkeypatch.setattr(validation, "evaluate_by_gx", refuse)
    for table in (table for declared in JOBS.values() for table in build_job(declared).tables):
        suite = project_suites().get(table.name, {})
        found = validation.validate(pl.DataFrame(table.schema.empty_table()).lazy(), suite).values()
        assert [one.problem for one in found if one.problem] == []


def test_a_table_whose_rows_its_files_alone_do_not_tell_is_read_by_its_log(tmp_path):
    write_deltalake(str(tmp_path / "t"), pa.table({"a": [1, 2], "b": ["x", "y"]}), partition_by=["b"])
    assert sorted(whole_table(tmp_path / "t").collect().rows()) == [(1, "x"), (2, "y")]
