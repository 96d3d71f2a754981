"""Find the rows that violate expectations with queries on Spark.

Great Expectations runs each query twice, for the rows and for their number, over a view name that the whole session shares.
Here, one query tells which of all queries return a row, and every view has its own name. The meaning is the same as in GX: the
expectation holds if the query returns no row.
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
    with _view(frame) as view:
        hold = _without_a_row(frame.sparkSession, view, queries) if len(queries) > 1 else set[str]()
        return {
            name: Violations() if name in hold else _evaluate(frame.sparkSession, view, one)
            for name, one in queries.items()
        }


def _without_a_row(spark: SparkSession, view: str, queries: Mapping[str, str]) -> set[str]:
    """Return the names of queries that return no row, by one query; none if one of them is wrong."""
    found = {name: _CONDITION.match(one) for name, one in queries.items()}
    conditions = {name: match[1] for name, match in found.items() if match and "{batch}" not in match[1]}
    together: dict[tuple[str, ...], str] = {(name,): one for name, one in queries.items() if name not in conditions}
    if conditions:
        # In one pass over the table. On lines of its own, as a condition may end with a comment.
        any_of_them = " OR ".join(f"(\n{condition}\n)" for condition in conditions.values())
        together[tuple(conditions)] = f"SELECT * FROM {{batch}} WHERE {any_of_them}"  # noqa: S608 - a suite's own
    one_of_each = " UNION ALL ".join(
        f"(SELECT {place} FROM (\n{one}\n) LIMIT 1)"  # noqa: S608 - a suite's own
        for place, one in enumerate(together.values())
    )
    try:
        violated = {place for (place,) in spark.sql(one_of_each.format(batch=view)).collect()}
    except (PySparkException, KeyError, IndexError, ValueError):
        # One of them is wrong, or more than a condition, such as one with a limit.
        return set()
    return {name for place, names in enumerate(together) if place not in violated for name in names}


def _evaluate(spark: SparkSession, view: str, query: str) -> Violations:
    try:
        found = spark.sql(query.format(batch=view))
        rows = [row.asDict() for row in found.limit(SAMPLED_ROWS + 1).collect()]
        return Violations(len(rows) if len(rows) <= SAMPLED_ROWS else found.count(), rows)
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
