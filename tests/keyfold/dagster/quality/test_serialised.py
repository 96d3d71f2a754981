"""Expectations as plain values: what is read from them without Great Expectations, and the objects that they become."""

import doctest
import json
from copy import deepcopy

import great_expectations as gx
import great_expectations.expectations as gxe
import pytest
from great_expectations.expectations import (
    ExpectColumnMeanToBeBetween,
    ExpectColumnToExist,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToMatchRegex,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.expectation import (
    ColumnMapExpectation,
    ColumnPairMapExpectation,
    MulticolumnMapExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations
from great_expectations.expectations.row_conditions import Column

from keyfold.dagster.quality import checks, serialised
from keyfold.dagster.quality.serialised import (
    build_expectation,
    build_expectations,
    build_suite,
    class_name,
    needs_whole_table,
    serialise,
    severity_of,
)

OF_GX = [
    name
    for name in list_registered_expectation_implementations()
    if get_expectation_impl(name).__module__.startswith("great_expectations.expectations.core")
]
FARE = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "fare", "min_value": 0, "mostly": 0.9},
    "severity": "warning",
    "description": "Meters run forward.",
    "meta": {"owner": "rides"},
    "notes": "See *meters*.",
}
OBJECTS = [
    gxe.ExpectColumnValuesToNotBeNull(
        column="fare",
        row_condition=(Column("fare") > 2) & (Column("status") == "dropoff"),
        severity=FailureSeverity.INFO,
        notes=["n"],
    ),
    gxe.ExpectColumnValuesToBeInSet(column="status", value_set=["a", "b"], mostly=0.5, meta={"owner": "rides"}),
    gxe.ExpectColumnQuantileValuesToBeBetween(
        column="fare", quantile_ranges={"quantiles": [0.5], "value_ranges": [[0, 10]]}, description="Half are so."
    ),
    gxe.UnexpectedRowsExpectation(
        unexpected_rows_query="SELECT * FROM {batch} WHERE fare < 0", severity=FailureSeverity.WARNING
    ),
    gxe.ExpectTableRowCountToBeBetween(max_value=0),
]


def test_a_value_becomes_the_object_of_gx_that_it_says():
    built = build_expectation(FARE)
    assert built == gxe.ExpectColumnValuesToBeBetween(
        column="fare",
        min_value=0,
        mostly=0.9,
        severity=FailureSeverity.WARNING,
        description="Meters run forward.",
        meta={"owner": "rides"},
        notes="See *meters*.",
    )


@pytest.mark.parametrize("expectation", OBJECTS, ids=lambda one: type(one).__name__)
def test_an_object_of_gx_is_the_same_after_it_was_a_value_in_json(expectation):
    value = json.loads(json.dumps(serialise(expectation)))
    assert build_expectation(value) == expectation
    assert serialise(build_expectation(value)) == value


def test_a_suite_is_exported_whole_and_loaded_by_gx_again_the_same():
    values = {str(number): serialise(one) for number, one in enumerate(OBJECTS)}
    exported = json.loads(json.dumps(build_suite("rides", values).to_json_dict()))
    again = gx.ExpectationSuite(name=exported["name"], expectations=exported["expectations"])
    assert again.expectations == OBJECTS


def test_building_leaves_the_values_as_they_are():
    before = deepcopy(FARE)
    build_suite("fares", {"fare": FARE})
    assert before == FARE


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"type": "expect_nothing"}, "expect_nothing not found"),
        ({"kwargs": {"colum": "fare"}}, "column\n  field required"),
        ({"severity": "fatal"}, "Must be one of: critical, warning, info"),
        ({"explanation": "none"}, "unexpected keyword argument"),
    ],
)
def test_what_gx_refuses_is_an_error_that_names_the_check_and_never_left_out(change, told):
    with pytest.raises(ValueError, match=f"(?s)check fare: Great Expectations refuses .*{told}"):
        build_suite("fares", {"there": {**FARE}, "fare": {**FARE, **change}})


@pytest.mark.parametrize("name", OF_GX)
def test_the_class_of_every_expectation_of_gx_is_known_by_its_type(name):
    assert class_name({"type": name, "kwargs": {}}) == get_expectation_impl(name).__name__


@pytest.mark.parametrize("name", OF_GX)
def test_what_gx_evaluates_over_a_whole_column_needs_the_whole_table(name):
    """Those of the schema apart, no more than what GX itself maps over rows sees new rows alone."""
    kind = get_expectation_impl(name)
    over_rows = issubclass(kind, ColumnMapExpectation | ColumnPairMapExpectation | MulticolumnMapExpectation)
    of_the_schema = "TableColumn" in kind.__name__ or kind is ExpectColumnToExist
    together = any(word in kind.__name__ for word in ("Unique", "Increasing", "Decreasing", "ZScores"))
    assert needs_whole_table({"type": name, "kwargs": {}}) is not (of_the_schema or (over_rows and not together))


@pytest.mark.parametrize(
    ("expectation", "whole"),
    [
        (ExpectColumnValuesToBeInSet(column="a", value_set=["x"]), False),
        (ExpectColumnValuesToMatchRegex(column="a", regex="x"), False),
        (ExpectColumnToExist(column="a"), False),
        (ExpectColumnValuesToBeUnique(column="a"), True),
        (ExpectColumnMeanToBeBetween(column="a", min_value=0), True),
        (UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE a < 0"), False),
        (UnexpectedRowsExpectation(unexpected_rows_query="SELECT a FROM {batch} GROUP BY a HAVING count(*) > 1"), True),
        (
            UnexpectedRowsExpectation(
                unexpected_rows_query="SELECT * FROM {batch} WHERE a > (SELECT avg(a) FROM {batch})"
            ),
            True,
        ),
        (
            UnexpectedRowsExpectation(
                unexpected_rows_query="SELECT * FROM {batch} QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) > 1"
            ),
            True,
        ),
    ],
)
def test_it_is_known_which_expectations_mean_something_over_the_whole_table_only(expectation, whole):
    assert needs_whole_table(serialise(expectation)) is whole


def test_of_what_is_not_known_the_whole_table_is_seen():
    assert needs_whole_table({"type": "expect_prices_of_ours", "kwargs": {"column": "fare"}})


def test_without_a_severity_it_is_the_one_that_gx_gives():
    value = {"type": "expect_column_to_exist", "kwargs": {"column": "fare"}}
    (built,) = build_expectations({"there": value}).values()
    assert severity_of(value) == built.severity.value


@pytest.mark.parametrize("module", [serialised, checks])
def test_the_examples_in_the_docstrings_are_right(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
