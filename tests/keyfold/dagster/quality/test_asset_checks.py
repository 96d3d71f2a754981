"""Expectations as asset checks: what passes, what fails, what could not be evaluated, and which rows each one sees."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from keyfold.dagster.quality.asset_checks import SCOPE_TAG, Scope, SuiteChecks, gx_checks
from keyfold.dagster.quality.pages import ResultPages
from keyfold.suite import Suite, critical, info, warning

TABLE = dg.AssetKey("table")


@dg.asset(key=TABLE)
def table() -> None: ...


@dg.asset(deps=[table])
def downstream() -> None: ...


class Run:
    """Materializes a table, its checks and what is downstream; and says what came of it."""

    def __init__(
        self,
        rows: pl.DataFrame,
        expectations: Suite,
        new: pl.DataFrame | None = None,
        *,
        selection: dg.AssetSelection | None = None,
        tags: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.reads: list[Scope] = []

        def read(_: dg.AssetCheckExecutionContext, scope: Scope) -> pl.LazyFrame | None:
            if scope is Scope.INCREMENTAL and new is None:
                return None
            self.reads.append(scope)
            return (new if scope is Scope.INCREMENTAL and new is not None else rows).lazy()

        checks = gx_checks(SuiteChecks(TABLE, expectations, read, **options), required_resource_keys=set())
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


FARES = pl.DataFrame({"ride": ["a", "b", "b", None], "fare": [3.0, -1.0, 5.0, 4.0]})
NOT_NEGATIVE = critical.between("fare", "Meters run forward.", min_value=0)
BELOW_TEN = critical.between("fare", "Rides are short.", max_value=10)
UNIQUE = critical.unique("ride", "A ride has one row.")
MEAN_OF_ONE = critical.mean_between("fare", "…", max_value=1)


def test_every_expectation_is_a_check_and_all_share_one_read():
    # The last has the values of another but for its name.
    suite = {"there": critical.not_null("ride", "…"), "unique": UNIQUE, "fare": BELOW_TEN, "fare_again": BELOW_TEN}
    run = Run(FARES, suite)
    assert run.passed() == {"there": False, "unique": False, "fare": True, "fare_again": True}
    assert run.reads == [Scope.FULL]


def test_a_failed_check_says_how_many_and_shows_whole_rows():
    run = Run(FARES, {"fare": NOT_NEGATIVE, "query": critical.never("fare > 3.5", "…"), "mean": MEAN_OF_ONE})
    check = run.found["fare"]
    assert check.description == "1 of 4 rows violate the expectation (25 %)"
    assert check.metadata["rows"].value == 4
    assert check.metadata["unexpected"].value == 1
    assert run.sample("fare") == [{"fare": "-1.0", "ride": "b"}]
    assert run.found["query"].description == "2 unexpected rows; the table has 4 rows"
    assert run.sample("query") == [{"ride": "b", "fare": "5.0"}, {"ride": "null", "fare": "4.0"}]
    assert run.found["mean"].description == "observed 2.75"


def test_of_many_bad_rows_ten_are_shown():
    rows = pl.DataFrame({"id": range(1000), "fare": -1.0, "same": 1})
    by_gx = critical("expect_column_value_lengths_to_equal", "…", column="id", value=9)
    suite = {"fare": NOT_NEGATIVE, "query": critical.never("fare < 0", "…"), "unique": critical.unique("same", "…")}
    run = Run(rows, {**suite, "gx": by_gx})
    assert run.found["fare"].metadata["unexpected"].value == 1000
    assert [len(run.sample(name)) for name in run.found] == [10] * 4


@pytest.mark.parametrize("column", ["fare", "tip"], ids=["fails", "could not be evaluated"])
@pytest.mark.parametrize(("severity", "holds"), [(critical, True), (warning, False), (info, False)])
def test_a_check_that_fails_or_could_not_be_evaluated_holds_downstream_back_where_it_is_critical(
    column, severity, holds
):
    run = Run(FARES, {"check": severity.between(column, "…", min_value=0)})
    found = run.found["check"]
    assert (found.passed, found.blocking) == (False, holds)
    assert found.severity is (dg.AssetCheckSeverity.ERROR if holds else dg.AssetCheckSeverity.WARN)
    assert run.made == ({TABLE} if holds else {TABLE, downstream.key})


def test_what_could_not_be_evaluated_says_why_and_spoils_no_other_check():
    wrong = {
        "column": (critical.between("tip", "…", min_value=0), '"tip" does not exist'),
        "query": (critical.never("tip < 0", "…"), 'unable to find column "tip"'),
        "syntax": (critical.no_rows("SELECT FROM WHERE {batch}", "…"), "was not found"),
        "statement": (critical.no_rows("DROP TABLE {batch}", "…"), "does not begin with SELECT or WITH"),
        "braces": (critical.never("ride = '{x}'", "…"), "write a literal brace twice: {{ }}"),
        "data": (critical.never("CAST(ride AS INT) < 0", "…"), "conversion from `str` to `i32` failed"),
        "condition": (critical.not_null("ride", "…", row_condition="tip > 0"), 'unable to find column "tip"'),
        "dictionary": (critical.not_null("ride", "…", row_condition={"type": "like"}), "is no text; write it in SQL"),
        "type": (critical.between("ride", "…", min_value=0), "must either be None or of the same type"),
        "share": (critical.not_null("ride", "…", mostly=2), "ValidationError"),
        "unknown": (critical("expect_nothing", "…"), "expect_nothing not found"),
        "argument": (critical("expect_column_values_to_not_be_null", "…", colum="fare"), "ValidationError"),
    }
    wrong["field"] = ({**UNIQUE, "explanation": "none"}, "unexpected keyword")  # type: ignore[typeddict-item]
    run = Run(FARES, {**{name: one for name, (one, _) in wrong.items()}, "fare": BELOW_TEN})
    assert run.found["fare"].passed
    assert run.found["fare"].metadata["evaluated"].value is True
    for name, (_, told) in wrong.items():
        found = run.found[name]
        assert (found.passed, found.metadata["evaluated"].value) == (False, False), name
        assert (found.description or "").startswith("could not be evaluated: "), name
        assert told in (found.description or ""), name


def test_a_numpy_truth_passes_as_a_real_one():
    quantiles = {"quantiles": [0.5], "value_ranges": [[0, 10]]}
    median = critical("expect_column_quantile_values_to_be_between", "…", column="fare", quantile_ranges=quantiles)
    assert Run(FARES, {"median": median}).found["median"].passed is True


def test_one_check_runs_on_its_own():
    run = Run(
        FARES, {"fare": BELOW_TEN, "ride": UNIQUE}, selection=dg.AssetSelection.checks(dg.AssetCheckKey(TABLE, "fare"))
    )
    assert list(run.found) == ["fare"]
    assert not run.made


# Scope


ROWS_AND_TABLE = {"fare": NOT_NEGATIVE, "rides_are_unique": UNIQUE}
NEW_FARES = FARES.filter(pl.col("fare") > 4.5)


def test_a_run_checks_what_it_wrote_and_uniqueness_over_the_whole_table():
    run = Run(FARES, ROWS_AND_TABLE, NEW_FARES)
    assert run.scopes() == {"fare": "incremental", "rides_are_unique": "full"}
    # The negative fare is of an earlier run; the ride that is new has a namesake among the old ones.
    assert run.passed() == {"fare": True, "rides_are_unique": False}
    assert run.found["fare"].metadata["rows"].value == 1
    assert run.reads == [Scope.INCREMENTAL, Scope.FULL]


@pytest.mark.parametrize("tags", [{SCOPE_TAG: "full"}, {}], ids=["asked for by a tag", "new rows are not known"])
def test_a_run_over_the_whole_table_reads_it_once(tags):
    run = Run(FARES, ROWS_AND_TABLE, NEW_FARES if tags else None, tags=tags)
    assert run.scopes() == {"fare": "full", "rides_are_unique": "full"}
    assert run.passed() == {"fare": False, "rides_are_unique": False}
    assert run.reads == [Scope.FULL]


def test_a_run_of_row_checks_alone_reads_its_new_rows_and_never_the_whole_table():
    for new, passed in ((NEW_FARES, True), (FARES.filter(pl.col("fare") < 0), False), (FARES.clear(), True)):
        run = Run(FARES, {"fare": NOT_NEGATIVE}, new)
        assert (run.passed(), run.reads) == ({"fare": passed}, [Scope.INCREMENTAL])


# Masked columns


CARD = "4711"
LEAKY = {
    "in_set": critical.in_set("card", ["none"], "…"),
    "unique": critical.unique("card", "…"),
    "other_column": NOT_NEGATIVE,
    "number": critical("expect_column_max_to_be_between", "…", column="number", max_value=0),
    "sum": critical("expect_column_sum_to_be_between", "…", column="number", max_value=0),
    "some": critical.between("fare", "…", min_value=0, row_condition="card IS NOT NULL"),
    "query": critical.never("fare < 0", "…"),
    "alias": critical.no_rows("SELECT card AS ride_id, fare FROM {batch} WHERE fare < 0", "…"),
    "namesake": critical.no_rows("SELECT card AS fare FROM {batch} WHERE fare < 0", "…"),
    "error": critical.never("CAST(card AS INT) < 0", "…"),
    "error_of_condition": critical.not_null("fare", "…", row_condition="CAST(card AS INT) < 0"),
    "cast": critical.between("card", "…", min_value=0),
}
CARDS = pl.DataFrame({"card": [f"card-{CARD}"] * 2, "number": 4711, "fare": [-1.0, -2.0]})


def test_no_value_of_a_masked_column_shows_anywhere(tmp_path):
    docs = ResultPages(tmp_path)
    run = Run(CARDS, LEAKY, masked=["card", "number"], data_docs=lambda _: docs)
    assert not any(run.passed().values())
    assert run.sample("other_column")[0] == {"fare": "-1.0", "card": "(private)", "number": "(private)"}
    assert run.sample("query")[0] == {"card": "(private)", "number": "(private)", "fare": "-1.0"}
    assert [name for name in ("alias", "namesake") if "sample" in run.found[name].metadata] == []
    assert run.found["in_set"].metadata["unexpected"].value == 2
    assert (run.found["error"].description or "").startswith("could not be evaluated: ` InvalidOperationError (hidden")
    assert CARD not in run.text()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".html" for path in files)
    assert not [path.name for path in files if CARD in path.read_text(encoding="utf-8")]


def test_without_masks_the_same_faults_show_their_values():
    run = Run(CARDS, LEAKY)
    assert run.sample("other_column")[0] == {"fare": "-1.0", "card": f"card-{CARD}", "number": "4711"}
    assert CARD in (run.found["error"].description or "")


# Data Docs


def test_every_check_links_to_the_page_of_its_validation(tmp_path):
    docs = ResultPages(tmp_path, base_url="http://docs.example/gx")
    run = Run(FARES, ROWS_AND_TABLE, NEW_FARES, data_docs=lambda _: docs)
    links = {name: one.metadata["data_docs"] for name, one in run.found.items()}
    assert all(isinstance(link, dg.UrlMetadataValue) for link in links.values())
    # One page for the new rows and one for the whole table.
    assert len({str(link.value) for link in links.values()}) == 2
    for link in links.values():
        assert (tmp_path / str(link.value).removeprefix("http://docs.example/gx/")).exists()


def test_a_page_on_this_machine_is_a_path_to_copy(tmp_path):
    run = Run(FARES, {"fare": NOT_NEGATIVE}, data_docs=lambda _: ResultPages(tmp_path))
    link = run.found["fare"].metadata["data_docs"]
    assert isinstance(link, dg.PathMetadataValue)
    assert Path(str(link.value)).is_file()


def test_pages_that_cannot_be_written_decide_nothing_about_the_data(tmp_path):
    (tmp_path / "file").write_text("in the way")
    run = Run(FARES, {"fare": BELOW_TEN}, data_docs=lambda _: ResultPages(tmp_path / "file"))
    assert run.found["fare"].passed
    assert "data_docs" not in run.found["fare"].metadata


# Rows are data


BEACON = "![x](http://127.0.0.1:9/beacon.png)"


def test_a_description_shows_values_of_rows_as_code_and_never_as_markdown():
    rows = pl.DataFrame({"ride": [f"{BEACON} `` ` \n<b>"], "fare": 1.0})
    common = critical("expect_column_most_common_value_to_be_in_set", "…", column="ride", value_set=["a"])
    run = Run(rows, {"common": common, "error": critical.never("CAST(ride AS INT) < 0", "…")})
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
