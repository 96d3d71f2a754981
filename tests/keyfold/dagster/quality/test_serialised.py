"""Expectations as plain values: what is read from them without Great Expectations."""

import doctest

import pytest

from keyfold.dagster.quality import asset_checks, serialised
from keyfold.dagster.quality.serialised import needs_whole_table, severity_of
from keyfold.suite import critical


def test_what_gx_evaluates_over_a_whole_column_needs_the_whole_table():
    """Those of the schema apart, no more than what GX itself maps over rows sees new rows alone."""
    # Each worker collects all tests, and this import takes seconds.
    from great_expectations import expectations as gxe  # noqa: PLC0415
    from great_expectations.expectations import expectation, registry  # noqa: PLC0415

    mapped = (
        expectation.ColumnMapExpectation,
        expectation.ColumnPairMapExpectation,
        expectation.MulticolumnMapExpectation,
    )
    kinds = {
        name: registry.get_expectation_impl(name) for name in registry.list_registered_expectation_implementations()
    }
    of_gx = {
        name: kind for name, kind in kinds.items() if kind.__module__.startswith("great_expectations.expectations.core")
    }
    assert len(of_gx) > 40
    del of_gx["unexpected_rows_expectation"]  # by its SQL
    for name, kind in of_gx.items():
        over_rows = issubclass(kind, mapped)
        of_the_schema = "TableColumn" in kind.__name__ or kind is gxe.ExpectColumnToExist
        together = any(word in kind.__name__ for word in ("Unique", "Increasing", "Decreasing", "ZScores"))
        needs = needs_whole_table({"type": name, "kwargs": {}})
        assert needs is not (of_the_schema or (over_rows and not together)), name
    assert needs_whole_table({"type": "expect_prices_of_ours", "kwargs": {"column": "fare"}})


@pytest.mark.parametrize(
    ("query", "whole"),
    [
        ("SELECT * FROM {batch} WHERE a < 0", False),
        ("SELECT a FROM {batch} WHERE abs(a) < 0 AND b IN (1, 2)", False),
        ("SELECT a FROM {batch} GROUP BY a HAVING count(*) > 1", True),
        ("SELECT * FROM {batch} WHERE a > (SELECT avg(a) FROM {batch})", True),
        ("SELECT * FROM {batch} WHERE a > max (a)", True),
        ("SELECT * FROM {batch} QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) > 1", True),
    ],
)
def test_it_is_known_which_sql_means_something_over_the_whole_table_only(query, whole):
    assert needs_whole_table(critical.no_rows(query, "…")) is whole
    condition = query.partition(" WHERE ")[2] or "a > max(a)"
    assert needs_whole_table(critical.not_null("a", "…", row_condition=condition)) is whole


def test_without_a_severity_it_is_the_one_that_gx_gives():
    from great_expectations.expectations import ExpectColumnToExist  # noqa: PLC0415 - takes seconds

    value = {"type": "expect_column_to_exist", "kwargs": {"column": "fare"}}
    assert severity_of(value) == ExpectColumnToExist(column="fare").severity.value
    with pytest.raises(ValueError, match="'fatal' is no severity"):
        severity_of({**value, "severity": "fatal"})


@pytest.mark.parametrize("module", [serialised, asset_checks])
def test_the_examples_in_the_docstrings_are_right(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
