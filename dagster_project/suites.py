"""The Great Expectations suites, each on its table as it was last written."""

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from assets.metadata import table_key
from dagster_project.checks import Read, Scope, gx_checks
from expectations import ride_summaries
from spark_jobs.lakehouse import Lakehouse


def read_table(table: str) -> Read:
    """A function that reads a table of the lakehouse with the run's own session."""

    def read(context: dg.AssetCheckExecutionContext, scope: Scope) -> DataFrame | None:
        if scope is Scope.INCREMENTAL:
            return None  # What the run wrote is not told apart yet: all is read.
        spark: SparkSession = context.resources.spark
        lakehouse: Lakehouse = context.resources.lakehouse
        return spark.read.format("delta").load(str(lakehouse.table(table)))

    return read


SUITES = [
    gx_checks(table_key(table), expectations, read_table(table), required_resource_keys={"spark", "lakehouse"})
    for table, expectations in {"ride_summaries": ride_summaries.EXPECTATIONS}.items()
]
