"""Evaluate Great Expectations 1.x on a Spark frame, with samples of violating rows and with masked columns.

Imports only its neighbours (see `checks.py`), and no Dagster.

**Few rows and many, same results.** A Spark job takes tens of milliseconds however little it reads, and a suite takes about
forty jobs. So a few rows become an Arrow table once (`rows.py`), and the usual expectations are evaluated on that in one pass
(`usual_expectations.py`). All others are evaluated on Spark, row queries by `row_queries.py`; so are all expectations if there
are many rows, first for counts: samples are fetched only for expectations that failed.

**An expectation that cannot be evaluated is not bad data.** A missing column or a wrong query gives a result with
`exception_info["raised_exception"]`, always in the same flat shape. Spark evaluates the counts of many expectations in one
query; if one of them fails, the error is reported only for the expectation that caused it.

**Masking.** No value of a masked column leaves this module: not in samples, observed values or errors.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from keyfold.dagster.quality.row_queries import evaluate_queries, is_plain_query
from keyfold.dagster.quality.rows import FEW, Rows
from keyfold.dagster.quality.samples import (
    SAMPLED_ROWS,
    Sampling,
    failure_reason,
    is_query,
    no_values_in_logs,
)
from keyfold.dagster.quality.usual_expectations import evaluate_usual

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.expectations import Expectation

Engine = Literal["auto", "spark"]
CHECK_NAME = "dagster_check"
"""Key in an expectation's `meta` that holds the check's name: GX returns results in another order than the suite's."""

_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0, "return_unexpected_index_query": False}
_SAMPLES = {**_COUNTS, "result_format": "SUMMARY", "partial_unexpected_count": SAMPLED_ROWS}
_ROWS = {"result_format": "COMPLETE"}
"""For queries only: GX collects at most 200 rows of a query, but all rows of other expectations."""


def validate(
    rows: Rows | DataFrame,
    expectations: Mapping[str, "Expectation"],
    *,
    engine: Engine = "auto",
    few: int = FEW,
    masked: Collection[str] = (),
    name: str = "suite",
) -> "ExpectationSuiteValidationResult":
    """Validate rows. The results are in the suite's order, each with its name in `meta["dagster_check"]`.

    Args:
        rows: the rows, or a batch frame that has them; it is cached during the validation, unless it is cached already.
        expectations: the expectations, by name.
        engine: "auto" evaluates usual expectations on a few rows without Spark; "spark" evaluates all on Spark.
        few: number of rows from which they are not few.
        masked: columns whose values must not appear.
        name: the suite's name.
    """
    given = rows if isinstance(rows, Rows) else Rows.of(rows)
    sampling = Sampling(given.schema, masked)
    with (
        given.collected(few if engine == "auto" else 0) as (collected, number),
        no_values_in_logs() if masked else nullcontext(),
    ):
        results = _evaluate_where_it_fits(collected, expectations, sampling)
    return _suite_result(name, [_tidy(results[check], number) for check in expectations])


def _evaluate_where_it_fits(
    rows: Rows, expectations: Mapping[str, "Expectation"], sampling: Sampling
) -> dict[str, "ExpectationValidationResult"]:
    results: dict[str, ExpectationValidationResult] = {}
    if rows.table is not None:
        named = {name: _named(name, one) for name, one in expectations.items()}
        for name, (result, found) in evaluate_usual(pl.DataFrame(rows.table), named).items():
            sampling.show(result, expectations[name], found)
            results[name] = result
    if others := {name: one for name, one in expectations.items() if name not in results}:
        # Great Expectations runs several jobs per expectation, a query reads only the columns that it uses.
        with rows.on_spark(once=all(map(is_plain_query, others.values()))) as frame:
            results |= _on_spark(frame, others, sampling)
    return results


def _on_spark(
    frame: DataFrame, expectations: Mapping[str, "Expectation"], sampling: Sampling
) -> dict[str, "ExpectationValidationResult"]:
    queries = {name: _named(name, one) for name, one in expectations.items() if is_plain_query(one)}
    results = evaluate_queries(frame, queries)
    results |= _by_gx_on_spark(frame, {name: one for name, one in expectations.items() if name not in results})
    for name, result in results.items():
        sampling.show(result, expectations[name])
    return results


def _by_gx_on_spark(
    frame: DataFrame, expectations: Mapping[str, "Expectation"]
) -> dict[str, "ExpectationValidationResult"]:
    if not expectations:
        return {}
    # With persist=True the frame would stay cached. A spark_config could restart the session.
    asset = _quiet_context().data_sources.add_spark("spark", persist=False).add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(batch_parameters={"dataframe": frame})
    queries = {name: one for name, one in expectations.items() if is_query(one)}
    others = {name: one for name, one in expectations.items() if name not in queries}
    results = {**_evaluate_each_if_need_be(batch, queries, _ROWS), **_evaluate_each_if_need_be(batch, others, _COUNTS)}
    if queries:
        # GX does not drop its view, which would keep the frame.
        frame.sparkSession.catalog.dropTempView("tmp_view")
    unexpected = {name: one for name, one in others.items() if _has_unexpected(results[name])}
    return {**results, **_sampled(batch, frame.columns, unexpected)}


def _sampled(
    batch: "Batch", columns: Sequence[str], expectations: Mapping[str, "Expectation"]
) -> dict[str, "ExpectationValidationResult"]:
    """Evaluate failed expectations again, with whole sample rows: each takes one more Spark job."""
    found = _evaluate(batch, expectations, {**_SAMPLES, "unexpected_index_column_names": list(columns)})
    return {name: result for name, result in found.items() if not failure_reason(result)}


def _evaluate_each_if_need_be(
    batch: "Batch", expectations: Mapping[str, "Expectation"], result_format: dict[str, Any]
) -> dict[str, "ExpectationValidationResult"]:
    """Evaluate all together, then each failed one alone: one wrong expectation may have failed the others' query."""
    results = _evaluate(batch, expectations, result_format)
    failed = [name for name, result in results.items() if failure_reason(result)]
    if len(expectations) > 1:
        for name in failed:
            results |= _evaluate(batch, {name: expectations[name]}, result_format)
    return results


def _evaluate(
    batch: "Batch", expectations: Mapping[str, "Expectation"], result_format: dict[str, Any]
) -> dict[str, "ExpectationValidationResult"]:
    if not expectations:
        return {}
    import great_expectations as gx  # noqa: PLC0415 - takes seconds
    from great_expectations.exceptions import GreatExpectationsError  # noqa: PLC0415

    named = {name: _named(name, one) for name, one in expectations.items()}
    suite = gx.ExpectationSuite(name="suite", expectations=list(named.values()))
    try:
        # Not a `ValidationDefinition`: it fails on numpy's bool, which some expectations return.
        found = batch.validate(suite, result_format=result_format).results
    except (GreatExpectationsError, PySparkException) as error:
        return {name: _not_evaluated(one, f"{type(error).__name__}: {error}") for name, one in named.items()}
    # Matched by name: GX returns results in another order than the suite's.
    results = {one.expectation_config.meta[CHECK_NAME]: one for one in found if one.expectation_config}
    missing = named.keys() - results.keys()
    return results | {name: _not_evaluated(named[name], "Great Expectations returned no result") for name in missing}


def _named(name: str, expectation: "Expectation") -> "Expectation":
    return expectation.copy(update={"meta": {**(expectation.meta or {}), CHECK_NAME: name}, "id": None})


def _not_evaluated(expectation: "Expectation", message: str) -> "ExpectationValidationResult":
    from great_expectations.core import ExpectationValidationResult  # noqa: PLC0415

    return ExpectationValidationResult(
        success=False,
        expectation_config=expectation.configuration,
        result={},
        exception_info={"raised_exception": True, "exception_message": message, "exception_traceback": ""},
    )


def _quiet_context() -> Any:
    import great_expectations as gx  # noqa: PLC0415 - takes seconds
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _has_unexpected(result: "ExpectationValidationResult") -> bool:
    return bool(result.result.get("unexpected_count")) and not failure_reason(result)


def _tidy(result: "ExpectationValidationResult", rows: int) -> "ExpectationValidationResult":
    """Convert numpy's values to Python's: numpy's are not JSON, and Dagster refuses numpy's bool."""
    result.success = bool(result.success)
    result.result = {
        key: value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
        for key, value in result.result.items()
    }
    if not failure_reason(result):
        result.result.setdefault("element_count", rows)
        if result.result.get("unexpected_count", 0) is None:
            # On an empty table, Spark's count is None.
            result.result["unexpected_count"] = 0
    return result


def _suite_result(name: str, results: "list[ExpectationValidationResult]") -> "ExpectationSuiteValidationResult":
    from great_expectations.core import ExpectationSuiteValidationResult  # noqa: PLC0415

    successful = sum(bool(result.success) for result in results)
    return ExpectationSuiteValidationResult(
        success=successful == len(results),
        results=results,
        suite_name=name,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": successful,
            "unsuccessful_expectations": len(results) - successful,
            "success_percent": 100.0 * successful / len(results) if results else None,
        },
    )
