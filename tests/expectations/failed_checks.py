"""Which checks of a suite fail on given rows."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from great_expectations.expectations import Expectation
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from dagster_project.quality.checks import validate


def failed_checks(
    spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema, expectations: Mapping[str, Expectation]
) -> set[str]:
    """Names of the checks that fail on rows of a table whose every column may be missing."""
    fields = from_arrow_schema(schema)
    for field in fields.fields:
        field.nullable = True
    results = validate(spark.createDataFrame([tuple(row.values()) for row in rows], fields), expectations).results
    configurations = (one.expectation_config for one in results if not one.success)
    return {one.meta["dagster_check"] for one in configurations if one is not None and one.meta}
