"""Evaluate expectations with Great Expectations (GX) on pandas: those that are not planned for Polars."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, cast

import polars as pl

from keyfold.dagster.quality.outcome import MOST_EXAMPLES, Outcome
from keyfold.dagster.quality.serialised import SerialisedExpectation, columns_of, is_of_the_schema


def evaluate_by_gx(
    outcome: Outcome, value: SerialisedExpectation, rows: pl.LazyFrame, schema: pl.Schema
) -> Sequence[Mapping[str, Any]]:
    """Fill an outcome with what GX finds, and return some of the violating rows.

    pandas holds all rows of the columns that the expectation names; of all columns, if it names none.

    Args:
        outcome: the outcome to fill.
        value: the expectation.
        rows: the rows that it is about.
        schema: their columns.
    """
    from great_expectations.exceptions import GreatExpectationsError  # noqa: PLC0415 - takes seconds
    from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415
        ExpectationConfiguration,
    )

    columns = [name for name in dict.fromkeys(columns_of(value)) if name in schema] or list(schema)
    form = {
        "result_format": "SUMMARY",
        "partial_unexpected_count": MOST_EXAMPLES,
        "unexpected_index_column_names": columns,
    }
    wanted = rows.head(0) if is_of_the_schema(value) else rows.select(columns)
    frame = wanted.collect(engine="streaming").to_pandas()
    try:
        # A copy, since suites share values and GX keeps a reference.
        expectation = ExpectationConfiguration(**cast(dict[str, Any], deepcopy(dict(value)))).to_domain_obj()
        # Not a `ValidationDefinition`: it fails on numpy's bool, which some expectations return.
        batch = _batch_definition().get_batch(batch_parameters={"dataframe": frame})
        result = batch.validate(expectation, result_format=form)
    except (GreatExpectationsError, TypeError, ValueError) as error:
        outcome.problem = f"{type(error).__name__}: {error}"
        return ()
    # Numpy's values become Python's: numpy's are not JSON, and Dagster refuses them.
    outcome.result = {
        key: value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
        for key, value in result.result.items()
        if key == "observed_value" or key.endswith("_count")
    }
    if not is_of_the_schema(value):
        outcome.result.setdefault("element_count", len(frame))
    outcome.success, outcome.problem = bool(result.success), _problem_of(result.exception_info or {})
    return [row for row in result.result.get("partial_unexpected_index_list") or () if isinstance(row, dict)]


@cache
def _batch_definition() -> Any:
    """Return what makes batches of frames; each context of GX makes a folder of its own."""
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return (
        context.data_sources.add_pandas("rows").add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    )


def _problem_of(info: Mapping[str, Any]) -> str | None:
    """Return why an expectation could not be evaluated; None if it was."""
    # If metrics failed, GX nests one record per metric; else there is one flat record.
    records = [info] if "raised_exception" in info else list(info.values())
    messages = [str(record.get("exception_message")) for record in records if record.get("raised_exception")]
    return "; ".join(dict.fromkeys(messages)) or None
