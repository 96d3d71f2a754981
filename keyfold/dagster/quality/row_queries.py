"""Find the rows that violate expectations with queries on Spark: all conditions on rows in one query, all others in a second.

Great Expectations runs each query twice, for the rows and for their number, over a view name that the whole session shares.
Here, one query tells whether any row meets one of the conditions, another one counts the rows of all other queries, and every
view has its own name. The meaning is the same as in GX: the expectation holds if the query returns no row.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from keyfold.dagster.quality.samples import SAMPLED_ROWS
from keyfold.dagster.quality.serialised import SerialisedExpectation, arguments_of

_CONDITION = re.compile(r"\s*select\s+\*\s+from\s+\{batch\}\s+where\s(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Violations:
    """What a query found: the number of rows, some of them, and why it could not be evaluated."""

    number: int = 0
    rows: Sequence[Mapping[str, Any]] = ()
    problem: str | None = None


def query_of(expectation: SerialisedExpectation) -> str | None:
    """Return the query of GX's own `UnexpectedRowsExpectation`; None for another expectation."""
    arguments = arguments_of(expectation)
    text = arguments.get("unexpected_rows_query")
    if expectation["type"] != "unexpected_rows_expectation" or set(arguments) != {"unexpected_rows_query"}:
        return None
    # As GX takes it.
    return text.rstrip("; \t\r\n\v\f") if isinstance(text, str) else None


def find_violations(frame: DataFrame, queries: Mapping[str, str]) -> dict[str, Violations]:
    """Return what each query finds, by name; `{batch}` in a query is the table."""
    if not queries:
        return {}
    spark = frame.sparkSession
    with _view(frame) as view:
        hold = _conditions_that_hold(spark, view, queries)
        others = {name: one for name, one in queries.items() if name not in hold}
        numbers = _count_all(spark, view, others)
        return {name: Violations() for name in hold} | {
            name: Violations() if numbers.get(name) == 0 else _evaluate(spark, view, one, numbers.get(name))
            for name, one in others.items()
        }


def _conditions_that_hold(spark: SparkSession, view: str, queries: Mapping[str, str]) -> set[str]:
    """Return the names of all queries that are one condition on rows, if no row meets any of these conditions; else none."""
    found = {name: _CONDITION.match(one) for name, one in queries.items()}
    conditions = {name: match[1] for name, match in found.items() if match and "{batch}" not in match[1]}
    if len(conditions) < 2:
        return set()
    # On lines of its own, as a condition may end with a comment.
    any_of_them = " OR ".join(f"(\n{condition}\n)" for condition in conditions.values())
    text = f"SELECT 1 FROM {{batch}} WHERE {any_of_them} LIMIT 1"  # noqa: S608 - a suite's own
    try:
        return set() if spark.sql(text.format(batch=view)).collect() else set(conditions)
    except (PySparkException, KeyError, IndexError, ValueError):
        # One of them is wrong, or more than a condition, such as one with a limit.
        return set()


def _count_all(spark: SparkSession, view: str, queries: Mapping[str, str]) -> dict[str, int]:
    """Return the number of rows of each query; empty if one of them is wrong."""
    if len(queries) < 2:
        return {}
    names = list(queries)
    counts = [
        f"SELECT {place} AS place, count(*) AS number FROM (\n{one}\n)"  # noqa: S608 - a suite's own
        for place, one in enumerate(queries.values())
    ]
    try:
        found = spark.sql(" UNION ALL ".join(counts).format(batch=view)).collect()
        return {names[place]: number for place, number in found}
    except (PySparkException, KeyError, IndexError, ValueError):
        return {}


def _evaluate(spark: SparkSession, view: str, query: str, number: int | None) -> Violations:
    try:
        found = spark.sql(query.format(batch=view))
        rows = [row.asDict() for row in found.limit(SAMPLED_ROWS + 1).collect()]
        if number is None:
            number = len(rows) if len(rows) <= SAMPLED_ROWS else found.count()
        return Violations(number, rows)
    except PySparkException as problem:
        return Violations(problem=str(problem))
    except (KeyError, IndexError, ValueError) as problem:
        told = f"the query has braces other than {{batch}} ({problem}); write a literal brace twice: {{{{ }}}}"
        return Violations(problem=told)


@contextmanager
def _view(frame: DataFrame) -> Iterator[str]:
    name = f"gx_{uuid4().hex}"
    frame.createTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
