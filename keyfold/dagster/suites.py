"""Build asset checks from the project's Great Expectations suites; they check the rows of a run, or the whole table."""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from pathlib import Path

import dagster as dg
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from keyfold.dagster.assets.groups import project_groups
from keyfold.dagster.assets.metadata import last_materialization, table_key, written_batches
from keyfold.dagster.quality.checks import Read, Scope, gx_checks
from keyfold.dagster.quality.pages import ResultPages, base_url_from
from keyfold.dagster.quality.rows import FEW, Rows
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.job.parameters import typical_job
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.reporting.run_statistics import files_written
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.frames import few_rows, table_frame
from keyfold.lakehouse.reading import scan_in_columns, to_table
from keyfold.project import current_project, project_jobs
from keyfold.storage.place import Place, local_path
from keyfold.suite import Suite

_TABLES = [
    (template.name, table, suite)
    # Jobs of asset groups only: a job without an asset has nothing to attach a check to.
    for group in project_groups()
    for template in group.jobs
    for table in typical_job(template).tables
    # Some tables have no suite, such as tables of late events.
    if (suite := current_project().suite(table.name)) is not None
]

_UI_URL = base_url_from(os.environ.get("KEYFOLD_UI_URL"))
"""Where `make ui` serves Dagster's pages; read when the code location loads, which reports a wrong address."""

_BATCH_COLUMN, _RANK_COLUMN = "_keyfold_batch", "_keyfold_rank"


def read_table(job: str, table: OutputTable) -> Read:
    """Return a function that reads a job's table with the run's Spark session."""
    name, key = table.name, table.key

    def read(context: dg.AssetCheckExecutionContext, scope: Scope) -> Rows | None:
        spark: SparkSession = context.resources.spark
        lakehouse: Lakehouse = context.resources.lakehouse
        path = lakehouse.table(name)
        table = DeltaTable(str(path))
        schema, version = StructType.fromJson(json.loads(table.schema().to_json())), table.version()
        if scope is Scope.FULL:
            return Rows(spark, schema, lambda: table_frame(spark, path, version), few_rows(path, version, FEW))
        written = written_batches(last_materialization(context.instance, table_key(name)))
        if written is None:
            return None
        files = files_written(lakehouse, job, name, written.generation, written.since, written.until)
        return None if files is None else rows_written(spark, schema, table.to_pyarrow_dataset().schema, files, key)

    return read


def rows_written(
    spark: SparkSession,
    schema: StructType,
    columns: pa.Schema,
    files: Mapping[int, Sequence[Place]],
    key: Sequence[str],
) -> Rows:
    """Read the rows that batches wrote; for a table with a key, only the newest row of each key.

    Args:
        spark: the session to read with.
        schema: the table's schema in Spark.
        columns: the table's schema in Arrow.
        files: the files, by batch, oldest first.
        key: the key columns of an upsert table; empty for an append table.
    """
    batches = [scan_in_columns(paths, columns) for paths in files.values()] or [scan_in_columns((), columns)]
    rows = pl.concat(batches)
    table = None
    if rows.select(pl.len()).collect().item() < FEW:
        # The newest of a key is the last.
        table = to_table(rows.unique(key, keep="last") if key and len(files) > 1 else rows, columns)
    return Rows(spark, schema, lambda: _frame_written(spark, schema, files, key), table)


def _frame_written(
    spark: SparkSession, schema: StructType, files: Mapping[int, Sequence[Place]], key: Sequence[str]
) -> DataFrame:
    # A file may be older than a column of the table; with the table's schema, its rows have NULL there.
    read = spark.read.schema(schema)
    if not files:
        return spark.createDataFrame([], schema)
    if not key or len(files) == 1:
        return read.parquet(*(str(path) for paths in files.values() for path in paths))
    batches = [read.parquet(*map(str, paths)).withColumn(_BATCH_COLUMN, F.lit(batch)) for batch, paths in files.items()]
    newest_first = Window.partitionBy(*key).orderBy(F.desc(_BATCH_COLUMN))
    ranked = reduce(DataFrame.unionByName, batches).withColumn(_RANK_COLUMN, F.row_number().over(newest_first))
    return ranked.where(F.col(_RANK_COLUMN) == 1).drop(_BATCH_COLUMN, _RANK_COLUMN)


def masked_columns(job: str, table: str) -> Callable[[dg.AssetCheckExecutionContext], Collection[str]]:
    """Return a function that gives a table's private columns.

    They depend on the live generation's parameters, since a parameter may choose another stream.
    """

    def masked(context: dg.AssetCheckExecutionContext) -> Collection[str]:
        lakehouse: Lakehouse = context.resources.lakehouse
        live = configured_job(lakehouse, project_jobs()[job])
        schema = next(one.schema for one in live.tables if one.name == table)
        return live.private_of(schema)

    return masked


def data_docs(context: dg.AssetCheckExecutionContext) -> ResultPages:
    """Return Data Docs in the lakehouse directory; if that is in a bucket, in DAGSTER_HOME, which is on a disk."""
    lakehouse: Lakehouse = context.resources.lakehouse
    home = local_path(lakehouse.home) or Path(os.environ.get("DAGSTER_HOME") or ".keyfold")
    return ResultPages(home.resolve() / "data_docs", base_url=_UI_URL and f"{_UI_URL.rstrip('/')}/data_docs")


def suite_checks(job: str, table: OutputTable, suite: Suite) -> dg.AssetChecksDefinition:
    """Build the checks of a suite on a job's table; they show no value of private columns."""
    return gx_checks(
        table_key(table.name),
        suite,
        read_table(job, table),
        required_resource_keys={"spark", "lakehouse"},
        masked=masked_columns(job, table.name),
        data_docs=data_docs,
    )


SUITES = [suite_checks(job, table, suite) for job, table, suite in _TABLES]
