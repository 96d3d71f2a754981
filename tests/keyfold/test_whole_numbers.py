"""Whole numbers are exact, or they are NULL."""

from decimal import Decimal

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from keyfold.exact_cast import whole_number, whole_numbers

ANY = st.integers(-(2**70), 2**70)


def fits(number: int) -> int | None:
    return number if -(2**63) <= number < 2**63 else None


@given(st.lists(ANY, max_size=20), st.sampled_from(["{}", "{}.0", " {}.000 ", "{}e0", "{}0e-1", "{}.", "+0{}"]))
def test_each_spelling_of_a_whole_number_is_that_number(numbers, spelling):
    numbers = [abs(number) if spelling.startswith("+") else number for number in numbers]
    texts = pl.Series([spelling.format(number) for number in numbers], dtype=pl.String)
    assert whole_numbers(texts, pl.Int64()).to_list() == [fits(number) for number in numbers]


@given(st.lists(st.decimals(-(10**25), 10**25, places=3), max_size=20))
def test_decimals_are_whole_where_they_have_no_fraction(numbers):
    expected = [fits(int(number)) if number == int(number) else None for number in numbers]
    assert whole_numbers(pl.Series(numbers, dtype=pl.Decimal(38, 3)), pl.Int64()).to_list() == expected
    texts = pl.Series([str(number) for number in numbers], dtype=pl.String)
    assert whole_numbers(texts, pl.Int64()).to_list() == expected


def test_a_float_is_whole_up_to_where_each_whole_number_has_a_float():
    values = [2.0, -0.0, 2.5, 2.0**53 - 1, 2.0**53, -(2.0**60), float("nan"), float("inf"), None]
    expected = [2, 0, None, 2**53 - 1, None, None, None, None, None]
    assert whole_numbers(pl.Series(values), pl.Int64()).to_list() == expected
    assert whole_numbers(pl.Series([2.0**24 - 1, 2.0**24], dtype=pl.Float32), pl.Int64()).to_list() == [2**24 - 1, None]


def test_what_is_no_number_or_too_long_is_none_at_once():
    for text in ("", "x", "1_0", "٣", "nan", "Infinity", "1e999999999", "1e99999999999999999999", "1e-999999999"):
        assert whole_number(text) is None
    assert whole_number("1.5e1") == 15
    assert whole_number(str(Decimal(2**63))) == 2**63
