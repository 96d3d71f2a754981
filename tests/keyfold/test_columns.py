"""A column says what it means once, and everybody reads it from there."""

import doctest

import pyarrow as pa
import pytest

from keyfold import columns
from keyfold.columns import column, describe, lineage_of, passed_on, unit_of
from keyfold.errors import KeyfoldError


def test_the_example_runs():
    names = {"pa": pa, **vars(columns)}
    assert doctest.testmod(columns, extraglobs=names).failed == 0
    assert doctest.DocTestFinder().find(columns)[0].examples


@pytest.mark.parametrize(
    ("meaning", "unit", "told"),
    [
        ("Speed", "km/h", "Speed, km/h"),
        ("Mean; NULL where none is known; never negative", "°F", "Mean, °F; NULL where none is known; never negative"),
        ("The ride; one of many", "", "The ride; one of many"),
    ],
)
def test_the_unit_is_told_after_the_first_clause(meaning, unit, told):
    declared = column("c", pa.float64(), meaning, unit=unit)
    assert describe(declared) == told
    assert unit_of(declared) == unit


def test_a_declared_column_is_the_field_that_it_says_whatever_is_told_of_it():
    declared = column("c", pa.int32(), "A count", unit="rows", lineage=("a", "b, with a comma"), nullable=False)
    assert declared == pa.field("c", pa.int32(), nullable=False)
    assert pa.schema([declared]) == pa.schema([pa.field("c", pa.int32(), nullable=False)])
    assert lineage_of(declared) == ("a", "b, with a comma")


def test_a_field_as_such_says_nothing():
    field = pa.field("c", pa.int32(), metadata={"comment": "of another program"})
    assert (describe(field), unit_of(field), lineage_of(field)) == ("", "", ())


def test_columns_that_are_passed_on_keep_their_words_and_are_made_of_themselves():
    stream = pa.schema([column("speed", pa.float64(), "Speed", unit="km/h"), pa.field("bare", pa.int8())])
    passed = passed_on(stream)
    assert [lineage_of(field) for field in passed] == [("speed",), ("bare",)]
    assert [describe(field) for field in passed] == ["Speed, km/h", ""]
    assert pa.schema(passed) == stream


def test_a_column_without_a_meaning_is_refused():
    with pytest.raises(KeyfoldError, match="column fare: say what it means"):
        column("fare", pa.float64(), " ")
