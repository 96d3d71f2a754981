"""Expectations as asset checks: what passes, what fails, what could not be evaluated, and which rows each one sees."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from great_expectations.expectations import (
    ExpectColumnMaxToBeBetween,
    ExpectColumnMeanToBeBetween,
    ExpectColumnMostCommonValueToBeInSet,
    ExpectColumnQuantileValuesToBeBetween,
    ExpectColumnValuesToBeBetween,
    ExpectColumnValuesToBeInSet,
    ExpectColumnValuesToBeUnique,
    ExpectColumnValuesToNotBeNull,
    UnexpectedRowsExpectation,
)
from great_expectations.expectations.metadata_types import FailureSeverity
from pyspark.sql import DataFrame, SparkSession

from keyfold.dagster.quality.checks import SCOPE_TAG, Scope, gx_checks
from keyfold.dagster.quality.pages import ResultPages
from keyfold.dagster.quality.rows import FEW
from keyfold.dagster.quality.serialised import serialise

TABLE = dg.AssetKey("table")
CRITICAL, WARNING, INFO = FailureSeverity.CRITICAL, FailureSeverity.WARNING, FailureSeverity.INFO


@dg.asset(key=TABLE)
def table() -> None: ...


@dg.asset(deps=[table])
def downstream() -> None: ...


# `test_validation.py` compares what the engines say of the same rows, of none too.
FEW_OR_MANY = pytest.mark.parametrize("few", [FEW, pytest.param(0, marks=pytest.mark.slow)], ids=["few", "many"])


class Run:
    """Materializes a table, its checks and what is downstream; and says what came of it."""

    def __init__(
        self,
        frame: DataFrame,
        expectations: Mapping[str, Any],
        new: DataFrame | None = None,
        *,
        selection: dg.AssetSelection | None = None,
        tags: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.reads: list[Scope] = []

        def read(_: dg.AssetCheckExecutionContext, scope: Scope) -> DataFrame | None:
            if scope is Scope.INCREMENTAL and new is None:
                return None
            self.reads.append(scope)
            return new if scope is Scope.INCREMENTAL else frame

        values = {name: serialise(one) for name, one in expectations.items()}
        checks = gx_checks(TABLE, values, read, required_resource_keys=set(), **options)
        with dg.DagsterInstance.ephemeral() as instance:
            result = dg.materialize(
                [table, downstream, checks],
                instance=instance,
                raise_on_error=False,
                selection=selection,
                tags=dict(tags or {}),
            )
        self.found = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
        self.made = {event.asset_key for event in result.get_asset_materialization_events()}

    def passed(self) -> dict[str, bool]:
        return {name: one.passed for name, one in self.found.items()}

    def scopes(self) -> dict[str, Any]:
        return {name: one.metadata["scope"].value for name, one in self.found.items()}

    def sample(self, check: str) -> list[dict[str, Any]]:
        value = self.found[check].metadata["sample"]
        assert isinstance(value, dg.TableMetadataValue)
        return [dict(record.data) for record in value.records]

    def text(self) -> str:
        """All that people can read of the checks."""
        return json.dumps(
            [[one.description, {key: str(value) for key, value in one.metadata.items()}] for one in self.found.values()]
        )


@pytest.fixture(scope="module")
def fares(spark: SparkSession) -> DataFrame:
    # Of an Arrow table the rows lie in the plan; of tuples Python workers would read them for each check.
    return spark.createDataFrame(pa.table({"ride": ["a", "b", "b", None], "fare": [3.0, -1.0, 5.0, 4.0]}))


def test_every_expectation_is_a_check_and_all_share_one_read(fares):
    run = Run(
        fares,
        {
            "ride_is_there": ExpectColumnValuesToNotBeNull(column="ride"),
            "rides_are_unique": ExpectColumnValuesToBeUnique(column="ride"),
            "fare_below_ten": ExpectColumnValuesToBeBetween(column="fare", max_value=10),
            # The same again but for its name: results are told apart by that, not by their order or what they expect.
            "fare_below_ten_again": ExpectColumnValuesToBeBetween(column="fare", max_value=10),
        },
    )
    assert run.passed() == {
        "ride_is_there": False,
        "rides_are_unique": False,
        "fare_below_ten": True,
        "fare_below_ten_again": True,
    }
    assert run.reads == [Scope.FULL]


@FEW_OR_MANY
def test_a_failed_check_says_how_many_and_shows_whole_rows(fares, few):
    run = Run(fares, {"fare": ExpectColumnValuesToBeBetween(column="fare", min_value=0)}, few=few)
    check = run.found["fare"]
    assert check.description == "1 of 4 rows violate the expectation (25 %)"
    assert check.metadata["rows"].value == 4
    assert check.metadata["unexpected"].value == 1
    assert check.metadata["unexpected_percent"].value == 25.0
    assert run.sample("fare") == [{"fare": "-1.0", "ride": "b"}]


def test_a_query_that_finds_rows_says_how_many_and_shows_them(fares):
    query = UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE fare > 3.5")
    run = Run(fares, {"query": query})
    assert run.found["query"].description == "2 unexpected rows; the table has 4 rows"
    assert run.sample("query") == [{"ride": "b", "fare": "5.0"}, {"ride": "null", "fare": "4.0"}]


@FEW_OR_MANY
def test_of_many_bad_rows_ten_are_shown(spark, few):
    frame = spark.range(1000).selectExpr("id", "-1.0D as fare")
    expectations = {
        "fare": ExpectColumnValuesToBeBetween(column="fare", min_value=0),
        "query": UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE fare < 0"),
    }
    run = Run(frame, expectations, few=few)
    assert run.found["fare"].metadata["unexpected"].value == 1000
    assert len(run.sample("fare")) == len(run.sample("query")) == 10


@pytest.mark.parametrize("column", ["fare", "tip"], ids=["fails", "could not be evaluated"])
@pytest.mark.parametrize(("severity", "holds"), [(CRITICAL, True), (WARNING, False), (INFO, False)])
def test_a_check_that_fails_or_could_not_be_evaluated_holds_downstream_back_where_it_is_critical(
    fares, column, severity, holds
):
    run = Run(fares, {"check": ExpectColumnValuesToBeBetween(column=column, min_value=0, severity=severity)})
    found = run.found["check"]
    assert (found.passed, found.blocking) == (False, holds)
    assert found.severity is (dg.AssetCheckSeverity.ERROR if holds else dg.AssetCheckSeverity.WARN)
    assert run.made == ({TABLE} if holds else {TABLE, downstream.key})


@pytest.mark.parametrize("few", [FEW, 0], ids=["few", "many"])
def test_a_missing_column_could_not_be_evaluated_and_spoils_no_other_check(fares, few):
    run = Run(
        fares,
        {
            "tip": ExpectColumnValuesToBeBetween(column="tip", min_value=0),
            "fare": ExpectColumnValuesToBeBetween(column="fare", max_value=10),
        },
        few=few,
    )
    assert not run.found["tip"].passed
    assert (run.found["tip"].description or "").startswith("could not be evaluated: ")
    assert '"tip"' in (run.found["tip"].description or "")
    assert run.found["tip"].metadata["evaluated"].value is False
    assert run.found["fare"].passed
    assert run.found["fare"].metadata["evaluated"].value is True


def test_a_query_that_is_wrong_could_not_be_evaluated(fares):
    expectations = {
        "wrong": UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE tip < 0"),
        "right": UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE fare < -9"),
    }
    run = Run(fares, expectations)
    assert not run.found["wrong"].passed
    assert (run.found["wrong"].description or "").startswith("could not be evaluated: ")
    assert run.found["right"].passed


@pytest.mark.parametrize("few", [FEW, 0], ids=["few", "many"])
def test_an_error_that_the_data_makes_is_told_of_its_own_check_alone(fares, few):
    expectations = {
        # Not a number: Spark refuses the one query in which it counts for all of them.
        "number": ExpectColumnValuesToBeBetween(column="ride", min_value=0),
        "fare": ExpectColumnValuesToBeBetween(column="fare", max_value=10),
        "mean": ExpectColumnMeanToBeBetween(column="fare", min_value=0),
    }
    run = Run(fares, expectations, few=few)
    assert {name: one.metadata["evaluated"].value for name, one in run.found.items()} == {
        "number": False,
        "fare": True,
        "mean": True,
    }
    assert run.passed() == {"number": False, "fare": True, "mean": True}


def test_a_numpy_truth_passes_as_a_real_one(fares):
    quantiles = {"quantiles": [0.5], "value_ranges": [[0, 10]]}
    run = Run(fares, {"median": ExpectColumnQuantileValuesToBeBetween(column="fare", quantile_ranges=quantiles)})
    assert run.found["median"].passed is True


def test_one_check_runs_on_its_own(fares):
    run = Run(
        fares,
        {
            "fare": ExpectColumnValuesToBeBetween(column="fare", max_value=10),
            "ride": ExpectColumnValuesToNotBeNull(column="ride"),
        },
        selection=dg.AssetSelection.checks(dg.AssetCheckKey(TABLE, "fare")),
    )
    assert list(run.found) == ["fare"]
    assert not run.made


@FEW_OR_MANY
def test_an_empty_table_passes(fares, few):
    expectations = {
        "fare": ExpectColumnValuesToBeBetween(column="fare", min_value=0),
        "query": UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE fare < 0"),
    }
    assert all(Run(fares.limit(0), expectations, few=few).passed().values())


def test_the_table_is_not_left_cached(spark, fares):
    expectations = {
        "ride": ExpectColumnValuesToNotBeNull(column="ride"),
        "query": UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE fare < 0"),
    }
    Run(fares, expectations)
    assert not fares.is_cached
    assert "tmp_view" not in {one.name for one in spark.catalog.listTables()}


def test_a_table_that_was_cached_before_stays_so(spark):
    frame = spark.range(3).persist()
    Run(frame, {"id": ExpectColumnValuesToNotBeNull(column="id")})
    assert frame.is_cached
    frame.unpersist()


# Scope


ROWS_AND_TABLE = {
    "fare": ExpectColumnValuesToBeBetween(column="fare", min_value=0),
    "rides_are_unique": ExpectColumnValuesToBeUnique(column="ride"),
}


@pytest.fixture(scope="module")
def new_fares(fares: DataFrame) -> DataFrame:
    return fares.where("fare > 4.5")


def test_a_run_checks_what_it_wrote_and_uniqueness_over_the_whole_table(fares, new_fares):
    run = Run(fares, ROWS_AND_TABLE, new_fares)
    assert run.scopes() == {"fare": "incremental", "rides_are_unique": "full"}
    # The negative fare is of an earlier run; the ride that is new has a namesake among the old ones.
    assert run.passed() == {"fare": True, "rides_are_unique": False}
    assert run.found["fare"].metadata["rows"].value == 1
    assert run.reads == [Scope.INCREMENTAL, Scope.FULL]


@pytest.mark.parametrize("tags", [{SCOPE_TAG: "full"}, {}], ids=["asked for by a tag", "new rows are not known"])
def test_a_run_over_the_whole_table_reads_it_once(fares, new_fares, tags):
    run = Run(fares, ROWS_AND_TABLE, new_fares if tags else None, tags=tags)
    assert run.scopes() == {"fare": "full", "rides_are_unique": "full"}
    assert run.passed() == {"fare": False, "rides_are_unique": False}
    assert run.reads == [Scope.FULL]


@pytest.mark.parametrize(("new", "passed"), [("fare > 4.5", True), ("fare < 0", False), ("false", True)])
def test_a_run_of_row_checks_alone_reads_its_new_rows_and_never_the_whole_table(fares, new, passed):
    run = Run(fares, {"fare": ROWS_AND_TABLE["fare"]}, fares.where(new))
    assert (run.passed(), run.reads) == ({"fare": passed}, [Scope.INCREMENTAL])


# Masked columns


CARD = "4711"
LEAKY = {
    "in_set": ExpectColumnValuesToBeInSet(column="card", value_set=["none"]),
    "unique": ExpectColumnValuesToBeUnique(column="card"),
    "other_column": ExpectColumnValuesToBeBetween(column="fare", min_value=0),
    "number": ExpectColumnMaxToBeBetween(column="number", max_value=0),
    "query": UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE fare < 0"),
    "alias": UnexpectedRowsExpectation(
        unexpected_rows_query="SELECT card AS ride_id, fare FROM {batch} WHERE fare < 0"
    ),
    "namesake": UnexpectedRowsExpectation(unexpected_rows_query="SELECT Card AS fare FROM {batch} WHERE fare < 0"),
    "error": UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE CAST(card AS INT) < 0"),
    "cast": ExpectColumnValuesToBeBetween(column="card", min_value=0),
}


@pytest.mark.parametrize("few", [FEW, 0], ids=["few", "many"])
def test_no_value_of_a_masked_column_shows_anywhere(spark, tmp_path, few):
    frame = spark.createDataFrame(
        [(f"card-{CARD}", 4711, -1.0), (f"card-{CARD}", 4711, -2.0)], "card string, number int, fare double"
    )
    docs = ResultPages(tmp_path)
    run = Run(frame, LEAKY, few=few, masked=["card", "number"], data_docs=lambda _: docs)
    assert not any(run.passed().values())
    assert run.sample("other_column")[0] == {"fare": "-1.0", "card": "(private)", "number": "(private)"}
    assert run.sample("query")[0] == {"card": "(private)", "number": "(private)", "fare": "-1.0"}
    assert run.sample("alias")[0] == {"ride_id": "(private)", "fare": "(private)"}
    assert run.sample("namesake")[0] == {"fare": "(private)"}
    assert run.found["in_set"].metadata["unexpected"].value == 2
    assert (run.found["error"].description or "").startswith("could not be evaluated: ` [CAST_INVALID_INPUT]")
    assert CARD not in run.text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".html" for path in files)
    assert not [path.name for path in files if CARD in path.read_text(encoding="utf-8")]


def test_without_masks_the_same_faults_show_their_values(spark):
    frame = spark.createDataFrame([(f"card-{CARD}", 4711, -1.0)], "card string, number int, fare double")
    run = Run(frame, LEAKY)
    assert run.sample("other_column") == [{"fare": "-1.0", "card": f"card-{CARD}", "number": "4711"}]
    assert CARD in (run.found["error"].description or "")


# Data Docs


def test_every_check_links_to_the_page_of_its_validation(fares, new_fares, tmp_path):
    docs = ResultPages(tmp_path, base_url="http://docs.example/gx")
    run = Run(fares, ROWS_AND_TABLE, new_fares, data_docs=lambda _: docs)
    links = {name: one.metadata["data_docs"] for name, one in run.found.items()}
    assert all(isinstance(link, dg.UrlMetadataValue) for link in links.values())
    # One page for the new rows and one for the whole table.
    assert len({str(link.value) for link in links.values()}) == 2
    for link in links.values():
        assert (tmp_path / str(link.value).removeprefix("http://docs.example/gx/")).exists()


def test_a_page_on_this_machine_is_a_path_to_copy(fares, tmp_path):
    run = Run(fares, {"fare": ROWS_AND_TABLE["fare"]}, data_docs=lambda _: ResultPages(tmp_path))
    link = run.found["fare"].metadata["data_docs"]
    assert isinstance(link, dg.PathMetadataValue)
    assert Path(str(link.value)).is_file()


def test_pages_that_cannot_be_written_decide_nothing_about_the_data(fares, tmp_path):
    (tmp_path / "file").write_text("in the way")
    expectations = {"fare": ExpectColumnValuesToBeBetween(column="fare", max_value=10)}
    run = Run(fares, expectations, data_docs=lambda _: ResultPages(tmp_path / "file"))
    assert run.found["fare"].passed
    assert "data_docs" not in run.found["fare"].metadata


# Rows are data


BEACON = "![x](http://127.0.0.1:9/beacon.png)"


def test_a_description_shows_values_of_rows_as_code_and_never_as_markdown(spark):
    frame = spark.createDataFrame([(f"{BEACON} `` ` \n<b>", 1.0)], "ride string, fare double")
    expectations = {
        "common": ExpectColumnMostCommonValueToBeInSet(column="ride", value_set=["a"]),
        "error": UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE CAST(ride AS INT) < 0"),
    }
    run = Run(frame, expectations)
    assert not any(run.passed().values())
    for check in run.found.values():
        told = check.description or ""
        assert BEACON in told
        assert "\n" not in told
        # CommonMark: a code span ends with as many backticks as it began with, and with no other number.
        fence = "```"
        before, inside, after = told.split(fence)
        assert BEACON not in before + after
        assert BEACON in inside


def test_a_number_in_a_description_is_a_number(fares):
    run = Run(fares, {"mean": ExpectColumnMeanToBeBetween(column="fare", max_value=1)})
    assert run.found["mean"].description == "observed 2.75"
