"""Evaluate the `UnexpectedRowsExpectation`s of a suite on Spark: all conditions on rows in one query, and other queries alone.

Great Expectations runs each query twice, for the rows and for their number, over a view name that the whole session shares.
Here, one query tells whether any row meets one of the conditions; the number is known from the rows if they all fit the
sample; and every view has its own name. The meaning is the same as in GX: the expectation holds if the query returns no row.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from keyfold.dagster.quality.samples import SAMPLED_ROWS

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations import Expectation

ROWS = "unexpected_rows"
_CONDITION = re.compile(r"\s*select\s+\*\s+from\s+\{batch\}\s+where\s(.*)", re.IGNORECASE | re.DOTALL)


def is_plain_query(expectation: "Expectation") -> bool:
    """Whether an expectation is GX's own `UnexpectedRowsExpectation`, not a subclass, with a query as text."""
    # Compared by name, since importing the class takes seconds.
    kind = type(expectation)
    ours = kind.__name__ == "UnexpectedRowsExpectation" and kind.__module__.startswith("great_expectations.")
    return ours and isinstance(getattr(expectation, "unexpected_rows_query", None), str)


def evaluate_queries(
    frame: DataFrame, expectations: Mapping[str, "Expectation"]
) -> dict[str, "ExpectationValidationResult"]:
    """Return results by name, in GX's form, with the first rows in `details`."""
    if not expectations:
        return {}
    spark = frame.sparkSession
    with _view(frame) as view:
        hold = _conditions_that_hold(spark, view, expectations)
        return {
            name: _result(one) if name in hold else _evaluate(spark, one, view) for name, one in expectations.items()
        }


def _conditions_that_hold(spark: SparkSession, view: str, expectations: Mapping[str, Any]) -> Collection[str]:
    """Return the names of all queries that are one condition on rows, if no row meets any of these conditions; else none."""
    found = {name: _CONDITION.match(one.unexpected_rows_query) for name, one in expectations.items()}
    conditions = {name: match[1] for name, match in found.items() if match and not {"{", "}"} & set(match[1])}
    if len(conditions) < 2:
        return ()
    # On lines of its own, as a condition may end with a comment.
    any_of_them = " OR ".join(f"(\n{condition}\n)" for condition in conditions.values())
    try:
        is_met = spark.sql(f"SELECT 1 FROM {view} WHERE {any_of_them} LIMIT 1").collect()  # noqa: S608 - a suite's own
    except PySparkException:
        # One of them is wrong, or more than a condition, such as one with a limit.
        return ()
    return () if is_met else conditions


def _evaluate(spark: SparkSession, expectation: Any, view: str) -> "ExpectationValidationResult":
    try:
        found = spark.sql(expectation.unexpected_rows_query.format(batch=view))
        rows = [row.asDict() for row in found.limit(SAMPLED_ROWS + 1).collect()]
        return _result(expectation, rows, len(rows) if len(rows) <= SAMPLED_ROWS else found.count())
    except PySparkException as problem:
        return _result(expectation, error=str(problem))
    except (KeyError, IndexError, ValueError) as problem:
        error = f"the query has braces other than {{batch}} ({problem}); write a literal brace twice: {{{{ }}}}"
        return _result(expectation, error=error)


def _result(
    expectation: Any, rows: Sequence[Mapping[str, Any]] = (), number: int = 0, error: str | None = None
) -> "ExpectationValidationResult":
    from great_expectations.core import ExpectationValidationResult  # noqa: PLC0415 - takes seconds

    return ExpectationValidationResult(
        success=error is None and number == 0,
        expectation_config=expectation.configuration,
        result={} if error else {"observed_value": number, "details": {ROWS: list(rows)}},
        exception_info={"raised_exception": error is not None, "exception_message": error, "exception_traceback": ""},
    )


@contextmanager
def _view(frame: DataFrame) -> Iterator[str]:
    name = f"gx_{uuid4().hex}"
    frame.createTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
