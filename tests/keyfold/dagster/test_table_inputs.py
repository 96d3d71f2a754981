"""Keyfold's tables are inputs of other assets, as the type of their annotation."""

from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame

from keyfold import TIMESTAMP, Input, Lakehouse, Stream, required
from keyfold.dagster import JobAssets, Keyfold, KeyfoldResource, Partitions, keyfold_assets
from keyfold.operators import count, windows

ORDERS = Stream("orders", [required("shop", pa.string(), "Shop"), required("at", TIMESTAMP, "Time")], event_time="at")
PER_HOUR = windows("orders_per_hour", Input(ORDERS), {"orders": count()}, key="shop", length="1h")
LINES = "".join(
    f'{{"shop": "{shop}", "at": "2026-01-01T{hour}:05:00Z"}}\n' for shop in ("Oslo", "Ulm") for hour in (10, 12)
)
OPENED = [("Oslo", 1), ("Ulm", 1)]

HOW_TO_READ: dict[Any, Any] = {
    pl.LazyFrame: lambda rows: rows.select("shop", "orders").collect().rows(),
    pl.DataFrame: lambda rows: rows.select("shop", "orders").rows(),
    pa.Table: lambda rows: list(zip(*(rows[name].to_pylist() for name in ("shop", "orders")), strict=True)),
    ds.Dataset: lambda rows: [tuple(row.values()) for row in rows.to_table(["shop", "orders"]).to_pylist()],
    pd.DataFrame: lambda rows: list(rows[["shop", "orders"]].itertuples(index=False, name=None)),
    duckdb.DuckDBPyRelation: lambda rows: rows.select("shop", "orders").fetchall(),
    Any: lambda rows: rows.select("shop", "orders").collect().rows(),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home") / "lake"
    folder = Lakehouse(home).landing("orders")
    folder.mkdir(parents=True)
    (folder / "orders.ndjson").write_text(LINES)
    result = materialize(home, keyfold_assets(streams=[ORDERS], jobs=[PER_HOUR]))
    assert result.success
    return home


def materialize(home: Any, assets: list[Any], *selected: str) -> dg.ExecuteInProcessResult:
    resources = {"keyfold": KeyfoldResource(str(home), "local"), "io_manager": dg.mem_io_manager}
    job = dg.Definitions(assets=assets, resources=resources).resolve_implicit_global_asset_job_def()
    settings = {"ops": {"ingest_orders": {"config": {"settle_seconds": 0}}}}
    return job.execute_in_process(
        asset_selection=[dg.AssetKey(name) for name in selected] or None,
        run_config={} if selected or len(assets) == 1 else settings,
        raise_on_error=False,
    )


def of_type(annotation: Any, read: Any) -> dg.AssetsDefinition:
    def mine(orders_per_hour):
        return sorted(read(orders_per_hour))

    mine.__annotations__ = {} if annotation is Any else {"orders_per_hour": annotation}
    return dg.asset(mine)


def failure_of(result: dg.ExecuteInProcessResult, step: str) -> str:
    (event,) = [event for event in result.all_events if event.is_step_failure and event.step_key == step]
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    return failure.description or ""


@pytest.mark.parametrize("annotation", HOW_TO_READ, ids=str)
def test_an_asset_takes_a_table_as_the_type_that_it_is_annotated_with(home, annotation):
    mine = of_type(annotation, HOW_TO_READ[annotation])
    result = materialize(home, [*keyfold_assets(streams=[ORDERS], jobs=[PER_HOUR]), mine], "mine")
    assert result.output_for_node("mine") == OPENED


def test_an_asset_takes_a_table_as_a_frame_of_spark(home, spark):
    context = dg.build_input_context(
        name="orders_per_hour",
        asset_key=dg.AssetKey("orders_per_hour"),
        dagster_type=dg.PythonObjectDagsterType(DataFrame),
        upstream_output=dg.build_output_context(definition_metadata={"dagster/table_name": "orders_per_hour"}),
    )
    rows = Keyfold(Lakehouse(home), spark).load_input(context)
    assert sorted((row.shop, row.orders) for row in rows.collect()) == OPENED
    assert rows.schema["window_start"].dataType.simpleString() == "timestamp"


def test_an_asset_in_another_code_location_takes_a_table_by_its_external_asset(home):
    external = dg.AssetSpec("hours", metadata={"dagster/table_name": "orders_per_hour"})

    @dg.asset(ins={"hours": dg.AssetIn(input_manager_key="keyfold")})
    def mine(hours: pl.LazyFrame) -> int:
        return hours.collect().height

    assert materialize(home, [external, mine], "mine").output_for_node("mine") == len(OPENED)


def test_an_external_asset_without_its_table_says_what_to_declare(home):
    @dg.asset(ins={"hours": dg.AssetIn(input_manager_key="keyfold")})
    def mine(hours: pl.LazyFrame) -> int:
        return hours.collect().height

    assert failure_of(materialize(home, [dg.AssetSpec("hours"), mine], "mine"), "mine") == (
        "asset hours has no metadata dagster/table_name, so its table is not known; where another code location makes it, declare "
        'dg.AssetSpec("hours", metadata={"dagster/table_name": "NAME"}) here'
    )


def test_a_type_that_no_table_can_be_read_as_is_refused_with_those_that_can(home):
    mine = of_type(dict, list)
    result = materialize(home, [*keyfold_assets(streams=[ORDERS], jobs=[PER_HOUR]), mine], "mine")
    assert failure_of(result, "mine") == (
        "input orders_per_hour is annotated with builtins.dict; table orders_per_hour can be read as polars.LazyFrame, "
        "polars.DataFrame, pyarrow.Table, pyarrow.Dataset, pandas.DataFrame, duckdb.DuckDBPyRelation, pyspark.DataFrame"
    )


def test_a_table_that_no_run_has_written_yet_is_named_with_those_that_there_are(tmp_path):
    mine = of_type(pl.LazyFrame, HOW_TO_READ[pl.LazyFrame])
    result = materialize(tmp_path, [*keyfold_assets(streams=[ORDERS], jobs=[PER_HOUR]), mine], "mine")
    assert failure_of(result, "mine").startswith("no table 'orders_per_hour' in ")


def test_the_value_of_another_asset_is_not_stored(home):
    @dg.asset(io_manager_key="keyfold")
    def mine() -> int:
        return 1

    assert failure_of(materialize(home, [mine]), "mine").startswith(
        "output result is to be stored by keyfold, which only reads"
    )


HOURS = Partitions("window_start", every="1h", start="2026-01-01")
OF_HOURS = {
    dg.AssetKey("in_hours"): ({"partition_key": "2026-01-01-10:00"}, OPENED),
    dg.AssetKey("in_two"): ({"tags": {"dagster/asset_partition_range_start": "2026-01-01-09:00",
                                      "dagster/asset_partition_range_end": "2026-01-01-10:00"}}, OPENED),
    dg.AssetKey("none"): ({"partition_key": "2026-01-01-11:00"}, []),
}  # fmt: skip


@pytest.mark.parametrize("annotation", [*HOW_TO_READ, DataFrame])
def test_an_asset_with_partitions_takes_the_rows_of_those_of_its_run_and_one_without_all_rows(home, annotation, spark):
    def rows_of(rows: Any) -> list[Any]:
        if annotation is DataFrame:
            return [tuple(row) for row in rows.select("shop", "orders").collect()]
        return HOW_TO_READ[annotation](rows)

    def in_hours(orders_per_hour):
        return sorted(rows_of(orders_per_hour))

    in_hours.__annotations__["orders_per_hour"] = annotation
    partitioned = dg.asset(partitions_def=HOURS.definition, name="in_hours")(in_hours)
    whole = dg.asset(name="whole")(in_hours)
    tables = keyfold_assets(streams=[ORDERS], jobs=[JobAssets(PER_HOUR, partitions=HOURS)])
    resources = {
        "keyfold": Keyfold(Lakehouse(home), spark) if annotation is DataFrame else KeyfoldResource(str(home), "local"),
        "io_manager": dg.mem_io_manager,
    }
    definitions = dg.Definitions(assets=[*tables, partitioned, whole], resources=resources)
    job = definitions.resolve_implicit_global_asset_job_def()
    for options, rows in OF_HOURS.values():
        done = job.execute_in_process(asset_selection=[dg.AssetKey("in_hours")], **options)
        assert done.output_for_node("in_hours") == rows
    assert job.execute_in_process(asset_selection=[dg.AssetKey("whole")]).output_for_node("whole") == OPENED
