"""Evaluate expectations with Great Expectations on a Spark frame: those that are not evaluated without it.

Counts come first: samples are fetched only for expectations that failed. Spark evaluates the counts of many expectations in one
query; if one of them fails, the error is reported only for the expectation that caused it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from keyfold.dagster.quality.outcome import Outcome
from keyfold.dagster.quality.samples import SAMPLED_ROWS, is_query
from keyfold.dagster.quality.serialised import SerialisedExpectation, build_expectations, serialise

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.expectations import Expectation

_CHECK = "dagster_check"
"""Key in an expectation's `meta` that holds the check's name: GX returns results in another order than the suite's."""

_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0, "return_unexpected_index_query": False}
_SAMPLES = {**_COUNTS, "result_format": "SUMMARY", "partial_unexpected_count": SAMPLED_ROWS}
_ROWS = {"result_format": "COMPLETE"}
"""For queries only: GX collects at most 200 rows of a query, but all rows of other expectations."""


def evaluate_by_gx(frame: DataFrame, values: Mapping[str, SerialisedExpectation]) -> dict[str, Outcome]:
    """Return the outcomes by check name.

    Raises:
        ValueError: GX refuses an expectation; the message names its check.
    """
    if not values:
        return {}
    expectations = build_expectations(values)
    # With persist=True the frame would stay cached. A spark_config could restart the session.
    asset = _quiet_context().data_sources.add_spark("spark", persist=False).add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(batch_parameters={"dataframe": frame})
    queries = {name: one for name, one in expectations.items() if is_query(values[name])}
    others = {name: one for name, one in expectations.items() if name not in queries}
    found = {**_evaluate_each_if_need_be(batch, queries, _ROWS), **_evaluate_each_if_need_be(batch, others, _COUNTS)}
    if queries:
        # GX does not drop its view, which would keep the frame.
        frame.sparkSession.catalog.dropTempView("tmp_view")
    unexpected = {name: one for name, one in others.items() if _has_unexpected(found[name])}
    return {**found, **_sampled(batch, frame.columns, unexpected)}


def outcome_of(check: str, expectation: "Expectation", found: "ExpectationValidationResult") -> Outcome:
    """Return a result of GX as an outcome. Numpy's values become Python's: numpy's are not JSON, and Dagster refuses them."""
    result = {
        key: value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value
        for key, value in found.result.items()
    }
    return Outcome(check, serialise(expectation), bool(found.success), result, _failure_reason(found))


def _failure_reason(found: "ExpectationValidationResult") -> str | None:
    """Return why an expectation could not be evaluated; None if it was."""
    info: Mapping[str, Any] = found.exception_info or {}
    # If metrics failed, GX nests one record per metric; else there is one flat record.
    records = [info] if "raised_exception" in info else list(info.values())
    messages = [str(record.get("exception_message")) for record in records if record.get("raised_exception")]
    return "; ".join(dict.fromkeys(messages)) or None


def _sampled(batch: "Batch", columns: Sequence[str], expectations: Mapping[str, "Expectation"]) -> dict[str, Outcome]:
    """Evaluate failed expectations again, with whole sample rows: each takes one more Spark job."""
    found = _evaluate(batch, expectations, {**_SAMPLES, "unexpected_index_column_names": list(columns)})
    return {name: outcome for name, outcome in found.items() if not outcome.problem}


def _evaluate_each_if_need_be(
    batch: "Batch", expectations: Mapping[str, "Expectation"], result_format: dict[str, Any]
) -> dict[str, Outcome]:
    """Evaluate all together, then each failed one alone: one wrong expectation may have failed the others' query."""
    found = _evaluate(batch, expectations, result_format)
    failed = [name for name, outcome in found.items() if outcome.problem]
    if len(expectations) > 1:
        for name in failed:
            found |= _evaluate(batch, {name: expectations[name]}, result_format)
    return found


def _evaluate(
    batch: "Batch", expectations: Mapping[str, "Expectation"], result_format: dict[str, Any]
) -> dict[str, Outcome]:
    if not expectations:
        return {}
    import great_expectations as gx  # noqa: PLC0415 - takes seconds
    from great_expectations.exceptions import GreatExpectationsError  # noqa: PLC0415

    named = [one.copy(update={"meta": {_CHECK: name}, "id": None}) for name, one in expectations.items()]
    suite = gx.ExpectationSuite(name="suite", expectations=named)
    try:
        # Not a `ValidationDefinition`: it fails on numpy's bool, which some expectations return.
        results = batch.validate(suite, result_format=result_format).results
    except (GreatExpectationsError, PySparkException) as error:
        return {
            name: _not_evaluated(name, one, f"{type(error).__name__}: {error}") for name, one in expectations.items()
        }
    # Matched by name: GX returns results in another order than the suite's.
    by_check = {one.expectation_config.meta[_CHECK]: one for one in results if one.expectation_config}
    return {
        name: outcome_of(name, one, by_check[name])
        if name in by_check
        else _not_evaluated(name, one, "Great Expectations returned no result")
        for name, one in expectations.items()
    }


def _not_evaluated(check: str, expectation: "Expectation", problem: str) -> Outcome:
    return Outcome(check, serialise(expectation), success=False, problem=problem)


def _has_unexpected(outcome: Outcome) -> bool:
    return bool(outcome.result.get("unexpected_count")) and not outcome.problem


def _quiet_context() -> Any:
    import great_expectations as gx  # noqa: PLC0415 - takes seconds
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context
