"""Expectations as Great Expectations writes them down: plain values until a check runs, GX's own objects then.

A value is what GX's JSON has of an expectation: `type`, `kwargs`, `severity`, `description`, and `meta` and `notes` where
there are any. Names, descriptions and severities of checks are read from it, so that loading definitions does not import
Great Expectations, which takes seconds.

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
"""One expectation, in GX's own terms."""

DEFAULT_SEVERITY = "critical"
"""GX's, where a value has none."""

_OTHERWISE_NAMED = {"expect_column_kl_divergence_to_be_less_than": "ExpectColumnKLDivergenceToBeLessThan"}
_UNLIKE_ROW_BY_ROW = re.compile(r"unique|increasing|decreasing|z_scores")
_ROW_BY_ROW = re.compile(r"expect_(column_values?|column_pair_values|multicolumn|select_column_values)_")
_OF_THE_SCHEMA = re.compile(r"expect_(table_columns?|column_to_exist)")
_OVER_ROWS_TOGETHER = re.compile(
    r"\b(group\s+by|having|distinct|over|join|union|intersect|except|limit)\b|\{batch\}.*\{batch\}|\bselect\b.*\bselect\b",
    re.IGNORECASE | re.DOTALL,
)


def class_name(value: SerialisedExpectation) -> str:
    """The name of GX's class.

    >>> class_name({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}})
    'ExpectColumnValuesToNotBeNull'
    """
    name = str(value["type"])
    return _OTHERWISE_NAMED.get(name) or "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def severity_of(value: SerialisedExpectation) -> str:
    """`critical`, `warning` or `info`.

    >>> severity_of({"type": "expect_column_to_exist", "kwargs": {"column": "fare"}, "severity": "info"})
    'info'
    """
    return str(value.get("severity") or DEFAULT_SEVERITY)


def needs_whole_table(value: SerialisedExpectation) -> bool:
    """Whether rows that were there before can change what an expectation finds of new ones.

    What is of a type that is not GX's own does, as nothing is known of it.

    >>> needs_whole_table({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}})
    False
    >>> needs_whole_table({"type": "expect_column_values_to_be_unique", "kwargs": {"column": "ride"}})
    True
    """
    query = cast(Mapping[str, Any], value["kwargs"]).get("unexpected_rows_query")
    if query is not None:
        return _OVER_ROWS_TOGETHER.search(str(query)) is not None
    kind = str(value["type"])
    if _OF_THE_SCHEMA.match(kind):
        return False
    return not _ROW_BY_ROW.match(kind) or _UNLIKE_ROW_BY_ROW.search(kind) is not None


def build_expectation(value: SerialisedExpectation) -> "Expectation":
    """The object of GX that a value stands for.

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
        # A copy: suites share values, and GX keeps what it is given.
        return ExpectationConfiguration(**cast(dict[str, Any], deepcopy(dict(value)))).to_domain_obj()
    except (GreatExpectationsError, TypeError, ValueError) as error:
        raise ValueError(f"Great Expectations does not take {dict(value)}: {error}") from error


def build_expectations(values: Mapping[str, SerialisedExpectation]) -> dict[str, "Expectation"]:
    """The objects of a suite, by check name.

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
    """A suite as GX's own, to add to a context, or to write down by its `to_json_dict()`.

    >>> fares = {"there": {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fare"}}}
    >>> [type(one).__name__ for one in build_suite("fares", fares).expectations]
    ['ExpectColumnValuesToNotBeNull']

    Raises:
        ValueError: GX refuses one of them; its own constructor logs that and leaves it out.
    """
    from great_expectations import ExpectationSuite  # noqa: PLC0415 - takes seconds

    return ExpectationSuite(name=name, expectations=list(build_expectations(values).values()))


def serialise(expectation: "Expectation") -> dict[str, Any]:
    """The value of an object of GX, which `build_expectation` makes into an equal one.

    >>> from great_expectations.expectations import ExpectColumnToExist
    >>> serialise(ExpectColumnToExist(column="fare", severity="info"))
    {'type': 'expect_column_to_exist', 'kwargs': {'column': 'fare'}, 'meta': {}, 'severity': 'info'}
    """
    return {key: part for key, part in expectation.configuration.to_json_dict().items() if key != "id"}
