"""Expectations as asset checks: what passes, what fails, and what could not be evaluated."""

from typing import Any

import dagster as dg
import pytest
from great_expectations.expectations import (
    ExpectColumnQuantileValuesToBeBetween,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity
from pyspark.sql import DataFrame, SparkSession

from dagster_project.checks import gx_checks

TABLE = dg.AssetKey("table")


@dg.asset(key=TABLE)
def table() -> None: ...


@dg.asset(deps=[table])
def downstream() -> None: ...


def evaluate(frame: DataFrame, selection: dg.AssetSelection | None = None, **expectations: Any):
    reads: list[DataFrame] = []

    def read(_: dg.AssetCheckExecutionContext) -> DataFrame:
        reads.append(frame)
        return frame

    checks = gx_checks(TABLE, expectations, read, required_resource_keys=set())
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [table, downstream, checks], instance=instance, raise_on_error=False, selection=selection
        )
    found = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
    made = {event.asset_key for event in result.get_asset_materialization_events()}
    return found, made, len(reads)


@pytest.fixture(scope="module")
def fares(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 3.0), ("b", -1.0), ("b", 5.0), (None, 4.0)], "ride string, fare double")


def test_every_expectation_is_a_check_and_all_share_one_read(fares):
    found, _, reads = evaluate(
        fares,
        ride_is_there=ExpectColumnValuesToNotBeNull(column="ride"),
        rides_are_unique=ExpectColumnValuesToBeUnique(column="ride"),
        fare_below_ten=ExpectColumnValuesToBeBetween(column="fare", max_value=10),
        # The same again but for its name: results are told apart by that, not by their order or what they expect.
        fare_below_ten_again=ExpectColumnValuesToBeBetween(column="fare", max_value=10),
    )
    assert {name: one.passed for name, one in found.items()} == {
        "ride_is_there": False,
        "rides_are_unique": False,
        "fare_below_ten": True,
        "fare_below_ten_again": True,
    }
    assert reads == 1


def test_a_failed_check_says_how_many_and_shows_some(fares):
    found, _, _ = evaluate(fares, fare=ExpectColumnValuesToBeBetween(column="fare", min_value=0))
    check = found["fare"]
    assert check.description == "1 of 4 rows are not so (25 %)"
    assert check.metadata["unexpected"].value == 1
    assert check.metadata["unexpected_percent"].value == 25.0
    assert check.metadata["sample"].value == ["-1.0"]


def test_a_critical_failure_holds_downstream_back(fares):
    found, made, _ = evaluate(
        fares,
        fare=ExpectColumnValuesToBeBetween(column="fare", min_value=0, severity=FailureSeverity.CRITICAL),
    )
    assert found["fare"].severity is dg.AssetCheckSeverity.ERROR
    assert found["fare"].blocking
    assert made == {TABLE}


@pytest.mark.parametrize("severity", [FailureSeverity.WARNING, FailureSeverity.INFO])
def test_a_lesser_failure_warns_and_holds_nothing_back(fares, severity):
    found, made, _ = evaluate(fares, fare=ExpectColumnValuesToBeBetween(column="fare", min_value=0, severity=severity))
    assert not found["fare"].passed
    assert found["fare"].severity is dg.AssetCheckSeverity.WARN
    assert made == {TABLE, downstream.key}


def test_a_missing_column_could_not_be_evaluated_and_spoils_no_other_check(fares):
    found, _, _ = evaluate(
        fares,
        tip=ExpectColumnValuesToBeBetween(column="tip", min_value=0),
        fare=ExpectColumnValuesToBeBetween(column="fare", max_value=10),
    )
    assert not found["tip"].passed
    assert found["tip"].description is not None
    assert found["tip"].description.startswith("could not be evaluated: ")
    assert '"tip"' in found["tip"].description
    assert found["tip"].metadata["evaluated"].value is False
    assert found["fare"].passed


def test_a_query_that_is_wrong_could_not_be_evaluated(fares):
    found, _, _ = evaluate(
        fares, query=UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE tip < 0")
    )
    assert not found["query"].passed
    assert (found["query"].description or "").startswith("could not be evaluated: ")


def test_a_numpy_truth_passes_as_a_real_one(fares):
    quantiles = {"quantiles": [0.5], "value_ranges": [[0, 10]]}
    found, _, _ = evaluate(
        fares, median=ExpectColumnQuantileValuesToBeBetween(column="fare", quantile_ranges=quantiles)
    )
    assert found["median"].passed is True


def test_one_check_runs_on_its_own(fares):
    found, made, _ = evaluate(
        fares,
        dg.AssetSelection.checks(dg.AssetCheckKey(TABLE, "fare")),
        fare=ExpectColumnValuesToBeBetween(column="fare", max_value=10),
        ride=ExpectColumnValuesToNotBeNull(column="ride"),
    )
    assert list(found) == ["fare"]
    assert not made


def test_an_empty_table_passes(fares):
    found, _, _ = evaluate(
        fares.limit(0),
        fare=ExpectColumnValuesToBeBetween(column="fare", min_value=0),
        query=UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE fare < 0"),
    )
    assert all(check.passed for check in found.values())


def test_the_table_is_not_left_cached(spark, fares):
    evaluate(fares, ride=ExpectColumnValuesToNotBeNull(column="ride"))
    assert not fares.is_cached
