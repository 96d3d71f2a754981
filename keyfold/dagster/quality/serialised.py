"""Read expectations in Great Expectations' serialised form, and run their SQL with Polars.

`type`, `kwargs`, `severity`, `description`, `meta` and `notes`: checks' names, descriptions and severities are read from these values,
so that loading definitions does not import Great Expectations (GX), which takes seconds.

SQL is Polars' own, and can read nothing but the given rows: names of columns are case-sensitive, and `{batch}` is the table. As in any
SQL, and on Spark, a comparison with NULL holds for no row.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

import polars as pl

from keyfold.sql_bounds import excess_of

SerialisedExpectation = Mapping[str, object]
"""One expectation in GX's serialised form."""

_OF_THE_SCHEMA = re.compile(r"expect_(table_columns?|column_to_exist)")
_ROW_BY_ROW = re.compile(
    r"unexpected_rows|expect_(column_values?|column_pair_values|multicolumn|select_column_values)_"
    r"(?!.*(unique|increasing|decreasing|z_scores))"
)
_OVER_ROWS_TOGETHER = re.compile(
    r"\b(group\s+by|having|distinct|over|join|union|intersect|except|limit)\b|\bselect\b.*\bselect\b"
    r"|\b((array|string|list)_?agg|avg|corr|count|covar\w*|first|last|max|mean|median|min|quantile\w*|std\w*|sum|var\w*)\s*\(",
    re.IGNORECASE | re.DOTALL,
)
_READS_A_FILE = re.compile(r"\b(read_\w+)\b(?!')([\"`]?\s*(?:\(|/\*|--|#))?", re.IGNORECASE)
_TABLE = "batch"


class Refused(ValueError):
    """A query or a condition that is not evaluated; the message says why, without values of rows."""


def arguments_of(value: SerialisedExpectation) -> Mapping[str, Any]:
    """Return the arguments of an expectation."""
    return cast(Mapping[str, Any], value["kwargs"])


def columns_of(value: SerialisedExpectation) -> list[str]:
    """Return the columns that an expectation names, in its order; a query names none.

    >>> columns_of({"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["ride", "hour"]}})
    ['ride', 'hour']
    """
    named = (arguments_of(value).get(key) for key in ("column", "column_A", "column_B", "column_list"))
    return [name for names in named if names for name in ([names] if isinstance(names, str) else names)]


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


def needs_whole_table(value: SerialisedExpectation) -> bool:
    """Whether older rows can change the result for new rows.

    A type that is not GX's own always needs the whole table, since its meaning is unknown.

    >>> needs_whole_table({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}})
    False
    >>> needs_whole_table({"type": "expect_column_values_to_be_unique", "kwargs": {"column": "ride"}})
    True
    """
    sql = "; ".join(str(arguments_of(value).get(key, "")) for key in ("unexpected_rows_query", "row_condition"))
    is_row_by_row = _ROW_BY_ROW.match(str(value["type"])) and not _OVER_ROWS_TOGETHER.search(sql)
    return not is_of_the_schema(value) and not is_row_by_row


def run_query(query: str, rows: pl.LazyFrame, schema: Mapping[str, Any]) -> pl.LazyFrame:
    """Return what a query gives over the table `{batch}`.

    Raises:
        Refused: the query is wrong, too long or nested too deeply (`sql_bounds`), or reads a file.
    """
    if excess := excess_of(query):
        raise Refused(f"the query is not evaluated: {excess}")
    if not re.match(r"[\s(]*(select|with)\b", query, re.IGNORECASE):
        raise Refused("the query does not begin with SELECT or WITH")
    # Polars' table functions, `read_csv` and the like. Wherever the word is: literals and comments could hide a call from a
    # closer look. A word that a quotation mark follows is a literal; a column of this name may stand there, and no call.
    for word, call in _READS_A_FILE.findall(query):
        if call or word not in schema:
            raise Refused(f"{word!r} is no column of the table, and a query may not read files")
    try:
        # As GX puts the table's name into a query.
        sql = query.rstrip("; \t\r\n\v\f").format(batch=_TABLE)
        answer = pl.SQLContext({_TABLE: rows}).execute(sql, eager=False)
        answer.collect_schema()
    except (KeyError, IndexError, ValueError) as problem:
        raise Refused(
            f"the query has braces other than {{batch}} ({problem}); write a literal brace twice: {{{{ }}}}"
        ) from problem
    except pl.exceptions.PolarsError as error:
        raise Refused(message_of(error)) from error
    return answer


def rows_where(condition: object, rows: pl.LazyFrame, schema: Mapping[str, Any]) -> pl.LazyFrame:
    """Return the rows for which a `row_condition` holds.

    Raises:
        Refused: it is not a condition in SQL, or reads a file.
    """
    if not isinstance(condition, str):
        raise Refused(f"the row condition {condition!r} is no text; write it in SQL, such as 'fare > 0'")
    return run_query(f"SELECT * FROM {{batch}} WHERE {condition}", rows, schema)  # noqa: S608 - a suite's own


def message_of(error: Exception) -> str:
    """Return what an error of Polars says, without the plan of its query."""
    return str(error).split("\n\n", maxsplit=1)[0]
