"""Convert expectations between Great Expectations' serialised values and its objects.

A value is an expectation's JSON in GX: `type`, `kwargs`, `severity`, `description`, and optionally `meta` and `notes`. Checks'
names, descriptions and severities are read from values, so that loading definitions does not import Great Expectations, which
takes seconds.

Imports nothing of this project, and no Dagster.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.expectations import Expectation

SerialisedExpectation = Mapping[str, object]
"""One expectation in GX's serialised form."""

SEVERITIES = ("critical", "warning", "info")
DEFAULT_SEVERITY = "critical"
"""GX's default severity."""

_OTHERWISE_NAMED = {"expect_column_kl_divergence_to_be_less_than": "ExpectColumnKLDivergenceToBeLessThan"}
_UNLIKE_ROW_BY_ROW = re.compile(r"unique|increasing|decreasing|z_scores")
_ROW_BY_ROW = re.compile(r"expect_(column_values?|column_pair_values|multicolumn|select_column_values)_")
_OF_THE_SCHEMA = re.compile(r"expect_(table_columns?|column_to_exist)")
_OVER_ROWS_TOGETHER = re.compile(
    r"\b(group\s+by|having|distinct|over|join|union|intersect|except|limit)\b|\{batch\}.*\{batch\}|\bselect\b.*\bselect\b",
    re.IGNORECASE | re.DOTALL,
)


def class_name(value: SerialisedExpectation) -> str:
    """Return the name of the expectation's class in GX.

    >>> class_name({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}})
    'ExpectColumnValuesToNotBeNull'
    """
    name = str(value["type"])
    return _OTHERWISE_NAMED.get(name) or "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def arguments_of(value: SerialisedExpectation) -> Mapping[str, Any]:
    """Return the arguments of an expectation.

    >>> arguments_of({"type": "expect_column_to_exist", "kwargs": {"column": "fare"}})
    {'column': 'fare'}
    """
    return cast(Mapping[str, Any], value["kwargs"])


def severity_of(value: SerialisedExpectation) -> str:
    """Return the severity: `critical`, `warning` or `info`.

    >>> severity_of({"type": "expect_column_to_exist", "kwargs": {"column": "fare"}, "severity": "info"})
    'info'
    """
    return str(value.get("severity") or DEFAULT_SEVERITY)


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
        return _OVER_ROWS_TOGETHER.search(str(query)) is not None
    kind = str(value["type"])
    if _OF_THE_SCHEMA.match(kind):
        return False
    return not _ROW_BY_ROW.match(kind) or _UNLIKE_ROW_BY_ROW.search(kind) is not None


def build_expectation(value: SerialisedExpectation) -> "Expectation":
    """Build GX's object from a value.

    >>> build_expectation({"type": "expect_column_to_exist", "kwargs": {"column": "fare"}}).column
    'fare'

    Raises:
        ValueError: GX has no such expectation, or refuses its arguments.
    """
    from great_expectations.exceptions import GreatExpectationsError  # noqa: PLC0415 - takes seconds
    from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415
        ExpectationConfiguration,
    )

    try:
        # A copy, since suites share values and GX keeps a reference.
        return ExpectationConfiguration(**cast(dict[str, Any], deepcopy(dict(value)))).to_domain_obj()
    except (GreatExpectationsError, TypeError, ValueError) as error:
        raise ValueError(f"Great Expectations refuses {dict(value)}: {error}") from error


def build_expectations(values: Mapping[str, SerialisedExpectation]) -> dict[str, "Expectation"]:
    """Build GX's objects of a suite, by check name.

    >>> fares = {"there": {"type": "expect_column_to_exist", "kwargs": {"column": "fare"}}}
    >>> build_expectations(fares)["there"].column
    'fare'

    Raises:
        ValueError: GX refuses one of them; the message names its check.
    """
    built: dict[str, Expectation] = {}
    for name, value in values.items():
        try:
            built[name] = build_expectation(value)
        except ValueError as error:
            raise ValueError(f"check {name}: {error}") from error
    return built


def build_suite(name: str, values: Mapping[str, SerialisedExpectation]) -> "ExpectationSuite":
    """Build GX's own suite, to add to a context or to serialise with `to_json_dict()`.

    >>> fares = {"there": {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}}}
    >>> [type(one).__name__ for one in build_suite("fares", fares).expectations]
    ['ExpectColumnValuesToNotBeNull']

    Raises:
        ValueError: GX refuses an expectation. (GX's own constructor would log this and drop the expectation.)
    """
    from great_expectations import ExpectationSuite  # noqa: PLC0415 - takes seconds

    return ExpectationSuite(name=name, expectations=list(build_expectations(values).values()))


def serialise(expectation: "Expectation") -> dict[str, Any]:
    """Return the value of a GX object; `build_expectation` builds an equal object from it.

    >>> from great_expectations.expectations import ExpectColumnToExist
    >>> serialise(ExpectColumnToExist(column="fare", severity="info"))
    {'type': 'expect_column_to_exist', 'kwargs': {'column': 'fare'}, 'meta': {}, 'severity': 'info'}
    """
    return {key: part for key, part in expectation.configuration.to_json_dict().items() if key != "id"}
