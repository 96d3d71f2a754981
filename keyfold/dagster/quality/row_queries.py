"""Evaluate `UnexpectedRowsExpectation` on Spark in one query instead of two, without a Spark job for small tables.

Great Expectations runs the query twice, for the rows and for their number, over a view name that the whole session shares.
Here, the number is known from the rows if they all fit the sample, and every view has its own name. The meaning is the same as
in GX: the expectation holds if the query returns no row.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import AtomicType

from keyfold.dagster.quality.samples import SAMPLED_ROWS

if TYPE_CHECKING:
    import pyarrow as pa
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations import Expectation

ROWS = "unexpected_rows"
_BYTES_IN_A_PLAN = 8 * 1024 * 1024


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
    with _view(frame) as view:
        return {name: _evaluate(frame, one, view) for name, one in expectations.items()}


def in_the_plan(frame: DataFrame, table: "pa.Table") -> DataFrame:
    """Put a small frame's rows into the query plan, where Spark filters them without a job; return a large one unchanged.

    Args:
        frame: the frame.
        table: all its rows.
    """
    if table.nbytes > _BYTES_IN_A_PLAN or not all(isinstance(one.dataType, AtomicType) for one in frame.schema.fields):
        return frame
    local = frame.sparkSession.createDataFrame(table)
    same = [(one.name, one.dataType) for one in local.schema] == [(one.name, one.dataType) for one in frame.schema]
    return local if same else frame


def _evaluate(frame: DataFrame, expectation: Any, view: str) -> "ExpectationValidationResult":
    from great_expectations.core import ExpectationValidationResult  # noqa: PLC0415 - takes seconds

    rows, error = [], None
    number = 0
    try:
        found = frame.sparkSession.sql(expectation.unexpected_rows_query.format(batch=view))
        rows = [row.asDict() for row in found.limit(SAMPLED_ROWS + 1).collect()]
        number = len(rows) if len(rows) <= SAMPLED_ROWS else found.count()
    except PySparkException as problem:
        error = str(problem)
    except (KeyError, IndexError, ValueError) as problem:
        error = f"the query has braces other than {{batch}} ({problem}); write a literal brace twice: {{{{ }}}}"
    return ExpectationValidationResult(
        success=error is None and number == 0,
        expectation_config=expectation.configuration,
        result={} if error else {"observed_value": number, "details": {ROWS: rows}},
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
