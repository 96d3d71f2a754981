"""Which checks of a suite fail on given rows, and how many rows each of them finds."""

from typing import Any

import polars as pl
import pyarrow as pa

from keyfold.dagster.quality.validation import validate
from keyfold.suite import Suite


def failed_checks(rows: list[dict[str, Any]], schema: pa.Schema, expectations: Suite) -> set[str]:
    """Names of the checks that fail on rows of a table whose every column may be missing."""
    return set(rows_found(rows, schema, expectations))


def rows_found(rows: list[dict[str, Any]], schema: pa.Schema, expectations: Suite) -> dict[str, Any]:
    """Of each check that fails, how many rows violate it; of one on a mean, the mean.

    With good rows and faults in one table, and as many found as there are faults about a check, each fault was found by
    its check and by no other.
    """
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    table = pl.DataFrame(pa.Table.from_pylist(rows, nullable))
    found = validate(table.lazy(), expectations).outcomes
    assert [one.check for one in found if one.problem] == []
    return {
        one.check: one.result.get("unexpected_count", one.result.get("observed_value"))
        for one in found
        if not one.success
    }
