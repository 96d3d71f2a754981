"""The Great Expectations suites, each on its table: on what a run wrote, or on all of it where that is asked for."""

from collections.abc import Mapping
from importlib import import_module

import dagster as dg
from great_expectations.expectations import Expectation
from pyspark.sql import DataFrame, SparkSession

from assets.metadata import SINCE_VERSION, last_materialization, table_key
from dagster_project.checks import Read, Scope, gx_checks
from dagster_project.data_docs import DataDocs
from spark_jobs.jobs.parameters import build_job
from spark_jobs.jobs.registry import JOBS
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.tables import files_written_since

_CHECKED_ELSEWHERE = {"long_rides"}
"""Its rows are rows of `ride_summaries`."""

TABLES = [
    table.name
    for template in JOBS.values()
    for table in build_job(template).tables
    if table.name != f"late.{template.name}" and table.name not in _CHECKED_ELSEWHERE
]
"""Every table that a job writes, but for its late events, which are as they came."""


def read_table(table: str) -> Read:
    """A function that reads a table of the lakehouse with the run's own session."""

    def read(context: dg.AssetCheckExecutionContext, scope: Scope) -> DataFrame | None:
        spark: SparkSession = context.resources.spark
        lakehouse: Lakehouse = context.resources.lakehouse
        path = lakehouse.table(table)
        whole = spark.read.format("delta").load(str(path))
        if scope is Scope.FULL:
            return whole
        made = last_materialization(context.instance, table_key(table))
        since = made.metadata.get(SINCE_VERSION) if made is not None else None
        files = files_written_since(path, int(str(since.value))) if since is not None else None
        if files is None:
            return None
        return spark.read.schema(whole.schema).parquet(*files) if files else whole.limit(0)

    return read


def expectations_of(table: str) -> Mapping[str, Expectation]:
    """The suite of a table: the module of its name."""
    return import_module(f"expectations.{table}").EXPECTATIONS


def data_docs(context: dg.AssetCheckExecutionContext) -> DataDocs:
    """Data Docs below the lakehouse's home."""
    lakehouse: Lakehouse = context.resources.lakehouse
    return DataDocs(lakehouse.home / "data_docs")


SUITES = [
    gx_checks(
        table_key(table),
        expectations_of(table),
        read_table(table),
        required_resource_keys={"spark", "lakehouse"},
        data_docs=data_docs,
    )
    for table in TABLES
]
