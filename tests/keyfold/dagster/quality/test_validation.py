"""Validation of few rows and of many: whatever the values, Polars and GX on Spark say the same."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import great_expectations.expectations as gxe
import polars as pl
import pytest
from great_expectations.expectations.row_conditions import Column
from pyspark.sql import DataFrame, SparkSession

from keyfold.dagster.quality.rows import FEW
from keyfold.dagster.quality.samples import SAMPLE
from keyfold.dagster.quality.serialised import serialise
from keyfold.dagster.quality.usual_expectations import meaning_of
from keyfold.dagster.quality.validation import validate

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAN = float("nan")
COLUMNS = (
    "whole long, whole_or_null int, huge_or_null long, share double, share_or_null double, share_or_nan double, "
    "narrow float, word string, word_or_null string, yes boolean, yes_or_null boolean, start timestamp, "
    "stop timestamp, stop_or_null timestamp, day date, price decimal(10,2), parts array<int>"
)
ROWS = [
    (1, 1, 2**53 + 1, 0.1, 0.1, 0.1, 0.1, "a", "a", True, True, NOON, NOON, NOON, date(2026, 1, 1), Decimal("1.10"), [1]),
    (2, None, None, -0.5, None, NAN, 0.2, "b", None, True, None, NOON, NOON, None, date(2026, 1, 2), Decimal("2.20"), []),
    (2, 3, 5, 2.5, 2.5, 2.5, 0.3, "b", "", False, False, NOON.replace(hour=13), NOON, NOON, None, None, None),
    (7, 3, 6, 2.5, 1e300, -1.0, 0.3, "é🙂", "é🙂", True, True, NOON, NOON.replace(hour=13), NOON, None, None, [1]),
]  # fmt: skip
VALUE_COLUMNS = [one.split()[0] for one in COLUMNS.split(", ")]
NUMBERS = ["whole", "whole_or_null", "huge_or_null", "share", "share_or_null", "share_or_nan", "narrow", "price"]


def expectations() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column in VALUE_COLUMNS:
        found[f"{column} is there"] = gxe.ExpectColumnValuesToNotBeNull(column=column)
        found[f"{column} is never there"] = gxe.ExpectColumnValuesToBeNull(column=column)
        if column != "parts":
            found[f"{column} is unique"] = gxe.ExpectColumnValuesToBeUnique(column=column)
    for column in NUMBERS:
        found[f"{column} is between"] = gxe.ExpectColumnValuesToBeBetween(column=column, min_value=0, max_value=2.2)
        found[f"{column} is above"] = gxe.ExpectColumnValuesToBeBetween(column=column, min_value=1, mostly=0.5)
        found[f"{column} is below"] = gxe.ExpectColumnValuesToBeBetween(column=column, max_value=0.1)
        if column != "huge_or_null":
            # Spark adds 64-bit floats, so its mean of huge integers depends on the order of the rows.
            found[f"{column} has a mean"] = gxe.ExpectColumnMeanToBeBetween(column=column, min_value=1, max_value=2)
        found[f"{column} has a least"] = gxe.ExpectColumnMinToBeBetween(column=column, min_value=0)
        found[f"{column} has a most"] = gxe.ExpectColumnMaxToBeBetween(column=column, max_value=2)
    for column in ("word", "word_or_null"):
        found[f"{column} is of a set"] = gxe.ExpectColumnValuesToBeInSet(column=column, value_set=["a", ""])
        found[f"{column} is none of a set"] = gxe.ExpectColumnValuesToNotBeInSet(column=column, value_set=["a", ""])
        found[f"{column} is short"] = gxe.ExpectColumnValueLengthsToBeBetween(column=column, min_value=1, max_value=1)
        found[f"{column} is two long"] = gxe.ExpectColumnValueLengthsToEqual(column=column, value=2)
        for pattern in ("^[ab]$", "^.{1}$", "(?s)^(\\{.*\\}|'|\\\\|a)", "🙂|^$"):
            found[f"{column} is like {pattern}"] = gxe.ExpectColumnValuesToMatchRegex(column=column, regex=pattern)
            found[f"{column} is unlike {pattern}"] = gxe.ExpectColumnValuesToNotMatchRegex(
                column=column, regex=pattern, mostly=0.6
            )
    for column in ("whole", "whole_or_null"):
        found[f"{column} is of a set"] = gxe.ExpectColumnValuesToBeInSet(column=column, value_set=[1, 2])
        found[f"{column} is none of a set"] = gxe.ExpectColumnValuesToNotBeInSet(column=column, value_set=[1, 2])
    for first, second in (("stop", "start"), ("stop_or_null", "start"), ("share", "share_or_null"), ("whole", "share")):
        pair: Any = {"column_A": first, "column_B": second}
        found[f"{first} above {second}"] = gxe.ExpectColumnPairValuesAToBeGreaterThanB(**pair, or_equal=True)
        found[f"{first} equals {second}"] = gxe.ExpectColumnPairValuesToBeEqual(**pair)
    for columns in (["whole", "word"], ["whole", "word_or_null"], ["share", "start"]):
        found[f"{columns} are unique"] = gxe.ExpectCompoundColumnsToBeUnique(column_list=columns)
    found["rows"] = gxe.ExpectTableRowCountToBeBetween(min_value=5)
    found["four rows"] = gxe.ExpectTableRowCountToEqual(value=4)
    return found


def is_usual(expectation: Any, table: pl.DataFrame) -> bool:
    return meaning_of(serialise(expectation), table) is not None


def outcomes(frame: DataFrame, chosen: Mapping[str, Any], few: int = FEW) -> dict[str, Any]:
    found = {}
    values = {name: serialise(one) for name, one in chosen.items()}
    for one in validate(frame, values, few=few).outcomes:
        counts = {key: value for key, value in one.result.items() if key.endswith(("_count", "_value", "_percent"))}
        sample = sorted(str(sorted(row.items())) for row in one.result.get(SAMPLE, []))
        found[one.check] = (one.success, bool(one.problem), counts, sample)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "one_in"),
    [
        # Great Expectations takes a second of Spark for two or three. Five is no divisor of how often a kind comes round.
        pytest.param(ROWS, 5, id="some"),
        pytest.param([], 5, id="none"),
        *(pytest.param(rows, 1, marks=pytest.mark.slow) for rows in (ROWS, ROWS[1:2], [])),
    ],
)
def test_both_engines_say_the_same_of_the_same_rows(spark: SparkSession, rows, one_in):
    frame = spark.createDataFrame(rows, COLUMNS)
    table = pl.DataFrame(frame.toArrow())
    # All others are evaluated on Spark by either.
    usual = [name for name, one in expectations().items() if is_usual(one, table)]
    chosen = {name: expectations()[name] for name in usual[::one_in]}
    by_polars, on_spark = outcomes(frame, chosen), outcomes(frame, chosen, few=0)
    assert {name: (one, on_spark[name]) for name, one in by_polars.items() if one != on_spark[name]} == {}


def test_what_each_engine_evaluates_comes_back_in_the_order_of_the_suite(spark):
    suite = {
        "a query": gxe.UnexpectedRowsExpectation(unexpected_rows_query="SELECT * FROM {batch} WHERE whole > 1"),
        "polars": gxe.ExpectColumnValuesToNotBeNull(column="whole"),
        "spark": gxe.ExpectColumnValuesToMatchRegex(column="word", regex="^[ab]$"),
        "some rows": gxe.ExpectColumnValuesToBeBetween(column="whole", min_value=5, row_condition=Column("whole") > 2),
    }
    found = outcomes(spark.createDataFrame(ROWS, COLUMNS), suite)
    assert [(name, success) for name, (success, *_) in found.items()] == [
        ("a query", False),
        ("polars", True),
        ("spark", False),
        ("some rows", True),
    ]


def test_much_of_a_suite_is_usual(spark):
    table = pl.DataFrame(spark.createDataFrame(ROWS, COLUMNS).toArrow())
    usual = {name for name, one in expectations().items() if is_usual(one, table)}
    assert {"whole is between", "narrow is above", "word_or_null is of a set", "stop above start"} <= usual
    assert len(usual) > 80


TABLE = pl.DataFrame(
    {
        "nan": [1.0, NAN],
        "narrow": [1.0, 2.0],
        "whole": [1, 2],
        "word": ["a", None],
        "list": [[1], []],
    },
    schema_overrides={"narrow": pl.Float32},
)


@pytest.mark.parametrize(
    "expectation",
    [
        gxe.ExpectColumnValuesToBeBetween(column="nan", max_value=1),
        gxe.ExpectColumnMaxToBeBetween(column="nan", max_value=1),
        gxe.ExpectColumnMeanToBeBetween(column="narrow", max_value=1),
        gxe.ExpectColumnValuesToBeBetween(column="word", min_value=0),
        gxe.ExpectColumnValuesToBeInSet(column="whole", value_set=["1"]),
        gxe.ExpectColumnValuesToBeUnique(column="list"),
        gxe.ExpectColumnValuesToMatchRegex(column="whole", regex="a"),
        gxe.ExpectColumnPairValuesToBeEqual(column_A="word", column_B="word"),
        gxe.ExpectColumnValuesToNotBeNull(column="whole", row_condition=Column("whole") > 1),
        gxe.ExpectColumnMedianToBeBetween(column="whole", min_value=1),
        gxe.ExpectColumnValuesToNotBeNull(column="missing"),
    ],
    ids=lambda one: f"{type(one).__name__} {one.configuration.kwargs.get('column', '')}",
)
def test_what_may_differ_is_left_to_spark(expectation):
    assert not is_usual(expectation, TABLE)


def test_an_expectation_that_a_user_derived_is_left_to_spark():
    class Ours(gxe.ExpectColumnValuesToNotBeNull):
        pass

    assert is_usual(gxe.ExpectColumnValuesToNotBeNull(column="whole"), TABLE)
    assert not is_usual(Ours(column="whole"), TABLE)


def test_a_frame_that_is_not_small_is_evaluated_on_spark_alone(spark, monkeypatch):
    def refuse(*_: Any) -> None:
        raise AssertionError("collected")

    frame = spark.createDataFrame(ROWS, COLUMNS)
    monkeypatch.setattr(type(frame), "toArrow", refuse)
    found = validate(frame, {"whole": serialise(gxe.ExpectColumnValuesToBeUnique(column="whole"))}, few=4)
    assert found.outcomes[0].result["unexpected_count"] == 2
