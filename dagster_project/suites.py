"""The Great Expectations suites, each on its table as it was last written."""

from collections.abc import Callable

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from assets.metadata import table_key
from dagster_project.checks import gx_checks
from expectations import ride_summaries
from spark_jobs.lakehouse import Lakehouse


def read_table(table: str) -> Callable[[dg.AssetCheckExecutionContext], DataFrame]:
    """A function that reads a table of the lakehouse with the run's own session."""

    def read(context: dg.AssetCheckExecutionContext) -> DataFrame:
        spark: SparkSession = context.resources.spark
        lakehouse: Lakehouse = context.resources.lakehouse
        return spark.read.format("delta").load(str(lakehouse.table(table)))

    return read


SUITES = [
    gx_checks(table_key(table), expectations, read_table(table), required_resource_keys={"spark", "lakehouse"})
    for table, expectations in {"ride_summaries": ride_summaries.EXPECTATIONS}.items()
]
