"""Which checks of a suite fail on given rows."""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.dagster.quality.checks import validate
from keyfold.dagster.quality.serialised import build_expectations
from keyfold.suite import Suite


def failed_checks(spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema, expectations: Suite) -> set[str]:
    """Names of the checks that fail on rows of a table whose every column may be missing."""
    fields = from_arrow_schema(schema)
    for field in fields.fields:
        field.nullable = True
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], fields)
    results = validate(frame, build_expectations(expectations)).results
    configurations = (one.expectation_config for one in results if not one.success)
    return {one.meta["dagster_check"] for one in configurations if one is not None and one.meta}
