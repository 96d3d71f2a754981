"""Read expectations in Great Expectations' serialised form, and turn their conditions and queries into Polars.

`type`, `kwargs`, `severity`, `description`, `meta` and `notes`: checks' names, descriptions and severities are read from these values,
so that loading definitions does not import Great Expectations (GX), which takes seconds.

SQL is Polars' own, and can read nothing but the given rows: names of columns are case-sensitive, and `{batch}` is the table. As in any
SQL, and on Spark, a comparison with NULL holds for no row.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, cast

import polars as pl

SerialisedExpectation = Mapping[str, object]
"""One expectation in GX's serialised form."""

_OF_THE_SCHEMA = re.compile(r"expect_(table_columns?|column_to_exist)")
_ROW_BY_ROW = re.compile(
    r"expect_(column_values?|column_pair_values|multicolumn|select_column_values)_"
    r"(?!.*(unique|increasing|decreasing|z_scores))"
)
_OVER_ROWS_TOGETHER = re.compile(
    r"\b(group\s+by|having|distinct|over|join|union|intersect|except|limit)\b|\bselect\b.*\bselect\b"
    r"|\b((array|string|list)_?agg|avg|corr|count|covar\w*|first|last|max|mean|median|min|quantile\w*|std\w*|sum|var\w*)\s*\(",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"\s*select\s+\*\s+from\s+\{batch\}\s+where\s(.*)", re.IGNORECASE | re.DOTALL)
_TABLE = "batch"
_COMPARISONS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def arguments_of(value: SerialisedExpectation) -> Mapping[str, Any]:
    """Return the arguments of an expectation."""
    return cast(Mapping[str, Any], value["kwargs"])


def columns_of(value: SerialisedExpectation) -> list[str]:
    """Return the columns that an expectation names, in its order; a query names none.

    >>> columns_of({"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["ride", "hour"]}})
    ['ride', 'hour']
    """
    found = (arguments_of(value).get(key) for key in ("column", "column_A", "column_B", "column_list"))
    return [name for one in found if one for name in ([one] if isinstance(one, str) else one)]


def severity_of(value: SerialisedExpectation) -> str:
    """Return the severity: `critical`, which is GX's default, `warning` or `info`.

    >>> severity_of({"type": "expect_column_to_exist", "kwargs": {"column": "fare"}, "severity": "info"})
    'info'

    Raises:
        ValueError: it is another word.
    """
    severity = str(value.get("severity") or "critical")
    if severity not in ("critical", "warning", "info"):
        raise ValueError(f"{severity!r} is no severity of an expectation; known are critical, warning and info")
    return severity


def is_of_the_schema(value: SerialisedExpectation) -> bool:
    """Whether an expectation is about columns alone, whatever the rows."""
    return _OF_THE_SCHEMA.match(str(value["type"])) is not None


def is_over_rows_together(sql: str) -> bool:
    """Whether what SQL says of a row may depend on other rows."""
    return _OVER_ROWS_TOGETHER.search(sql) is not None


def needs_whole_table(value: SerialisedExpectation) -> bool:
    """Whether older rows can change the result for new rows.

    A type that is not GX's own always needs the whole table, since its meaning is unknown.

    >>> needs_whole_table({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}})
    False
    >>> needs_whole_table({"type": "expect_column_values_to_be_unique", "kwargs": {"column": "ride"}})
    True
    """
    query = arguments_of(value).get("unexpected_rows_query")
    if query is not None:
        return is_over_rows_together(str(query))
    return not is_of_the_schema(value) and not _ROW_BY_ROW.match(str(value["type"]))


class Refused(ValueError):
    """A condition or a query that is not evaluated; the message says why, without values of rows."""


def condition_in(query: str) -> str | None:
    """Return what a query that gives whole rows of `{batch}` says of each row by itself; None for any other query.

    >>> condition_in("SELECT * FROM {batch} WHERE fare < 0")
    'fare < 0'
    """
    found = _CONDITION.match(query)
    return _filled(found[1]) if found and not is_over_rows_together(query) else None


def row_expression(condition: str, schema: pl.Schema) -> pl.Expr:
    """Return a condition in SQL on each row by itself.

    >>> row_expression("fare < 0", pl.Schema({"fare": pl.Int64})).meta.root_names()
    ['fare']

    Raises:
        Refused: it is no such condition, or has a subquery, or reads a file.
    """
    if re.search(r"\bselect\b", condition, re.IGNORECASE) or is_over_rows_together(condition):
        raise Refused("the condition looks at more than its own row; write a query as an expectation of its own")
    _refuse_files(condition, schema)
    with _refusing():
        return pl.sql_expr(condition)


def run_query(query: str, rows: pl.LazyFrame, schema: pl.Schema) -> pl.LazyFrame:
    """Return what a query gives over the table `{batch}`.

    Raises:
        Refused: the query is wrong, or reads a file.
    """
    if not re.match(r"[\s(]*(select|with)\b", query, re.IGNORECASE):
        raise Refused("the query does not begin with SELECT or WITH")
    _refuse_files(query, schema)
    with _refusing():
        return pl.SQLContext({_TABLE: rows}).execute(_filled(query), eager=False)


def row_condition(value: Any, schema: pl.Schema) -> pl.Expr:
    """Return a `row_condition`: GX's serialised conditions on columns, or a condition in SQL.

    Raises:
        Refused: it is neither.
    """
    if isinstance(value, str):
        return row_expression(value, schema)
    match value:
        case {"type": "pass_through", "pass_through_filter": str(text)}:
            return row_expression(text, schema)
        case {"type": "and" | "or" as kind, "conditions": [_, *_] as conditions}:
            return reduce(and_ if kind == "and" else or_, (row_condition(one, schema) for one in conditions))
        case {"type": "nullity", "column": {"name": str(name)}, "is_null": bool(is_null)}:
            return pl.col(name).is_null() if is_null else pl.col(name).is_not_null()
        case {"type": "comparison", "column": {"name": str(name)}, "operator": str(operator), "parameter": parameter}:
            return _comparison(name, operator, parameter)
        case _:
            raise Refused(f"the row condition {value!r} is none of Great Expectations'")


def message_of(error: Exception) -> str:
    """Return what an error of Polars says, without the plan of its query."""
    return str(error).split("\n\n", maxsplit=1)[0]


def _comparison(name: str, operator: str, parameter: Any) -> pl.Expr:
    column = pl.col(name)
    if operator in ("IN", "NOT_IN"):
        # Not `is_in`, which refuses whole numbers for a column of others.
        inside = reduce(or_, (column == one for one in parameter), pl.lit(value=False))
        return inside if operator == "IN" else ~inside
    if operator not in _COMPARISONS:
        raise Refused(f"a row condition compares by {operator!r}; known are {', '.join(_COMPARISONS)}, IN and NOT_IN")
    return _COMPARISONS[operator](column, parameter)


def _filled(query: str) -> str:
    """Put the table's name into a query, as GX does."""
    try:
        return query.rstrip("; \t\r\n\v\f").format(batch=_TABLE)
    except (KeyError, IndexError, ValueError) as problem:
        raise Refused(
            f"the query has braces other than {{batch}} ({problem}); write a literal brace twice: {{{{ }}}}"
        ) from problem


def _refuse_files(sql: str, schema: Mapping[str, Any]) -> None:
    # Polars' table functions, `read_csv` and the like. Wherever the word is: literals and comments could hide a call from a
    # closer look. A word that a quotation mark follows is a literal.
    for word in re.findall(r"\bread_\w+\b(?!')", sql, re.IGNORECASE):
        if word not in schema:
            raise Refused(f"{word!r} is no column of the table, and a query may not read files")
    # A column may have the name of such a function: what is called is none.
    if called := re.search(r"\b(read_\w+)[\"`]?\s*(?:\(|/\*|--|#)", sql, re.IGNORECASE):
        raise Refused(f"{called[1]!r} is called, and a query may not read files")


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise Refused(message_of(error)) from error
