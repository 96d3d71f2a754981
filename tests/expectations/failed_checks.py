"""Which checks of a suite fail on given rows, and how many rows each of them finds."""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from keyfold.dagster.quality.checks import validate
from keyfold.suite import Suite


def failed_checks(spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema, expectations: Suite) -> set[str]:
    """Names of the checks that fail on rows of a table whose every column may be missing."""
    return set(rows_found(spark, rows, schema, expectations))


def rows_found(
    spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema, expectations: Suite
) -> dict[str, Any]:
    """Of each check that fails, how many rows violate it; of one on a mean, the mean.

    With good rows and faults in one table, and as many found as there are faults about a check, each fault was found by
    its check and by no other: one validation for all, as each takes half a second.
    """
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    # Of an Arrow table the rows lie in the plan; of tuples Spark would start Python workers to read them.
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, nullable))
    return {
        one.check: one.result.get("unexpected_count", one.result.get("observed_value"))
        for one in validate(frame, expectations).outcomes
        if not one.success
    }
