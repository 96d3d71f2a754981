"""Read expectations in Great Expectations' serialised form: `type`, `kwargs`, `severity`, `description`, `meta` and `notes`.

Checks' names, descriptions and severities are read from these values, so that loading definitions does not import Great
Expectations (GX), which takes seconds.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

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
