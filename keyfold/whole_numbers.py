"""Whole numbers, exactly: text and decimals become integers without passing through a float."""

import re
from decimal import Decimal, InvalidOperation

import polars as pl

_MAX_FLOAT = {pl.Float64: 2**53 - 1, pl.Float32: 2**24 - 1, pl.Float16: 2**11 - 1}
"""The largest float that stands for one whole number alone: 2^53 is also what 2^53 + 1 is rounded to."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_MAX_DIGITS = 40
"""No integer of at most 128 bits has more."""


def whole_number(text: str) -> int | None:
    """The integer that a decimal number is, or None where it has a fraction, more than 40 digits, or is no number.

    Example:
        >>> whole_number("9007199254740993.0"), whole_number("1.5e1"), whole_number("2.5")
        (9007199254740993, 15, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent of more than 18 digits
        return None
    if not number:
        return 0
    # Before it is made: 1e999999999 would be an integer of 400 MB.
    if number.adjusted() >= _MAX_DIGITS:
        return None
    whole = int(number)
    return whole if whole == number else None


def whole_numbers(given: pl.Series, dtype: pl.DataType) -> pl.Series:
    """The values as an integer type; NULL where a value is not exactly one of that type.

    2.0 is 2: frames with gaps write their integers so. A float of 2^53 or more is NULL: several whole numbers are
    rounded to it, and it does not say which one was meant.

    Example:
        >>> whole_numbers(pl.Series(["9007199254740993.0", "2.5"]), pl.Int64()).to_list()
        [9007199254740993, None]
        >>> whole_numbers(pl.Series([2.0, 9007199254740993.0]), pl.Int64()).to_list()
        [2, None]
    """
    if given.dtype.is_integer():
        return given.cast(dtype, strict=False)
    if given.dtype.is_float():
        is_exact = (given.abs() <= _MAX_FLOAT[given.dtype.base_type()]) & (given == given.floor())
        return given.set(~is_exact, None).cast(dtype, strict=False)
    if isinstance(given.dtype, pl.Decimal):
        whole = given.cast(dtype, strict=False)
        return whole.set(whole.cast(pl.Decimal(38, given.dtype.scale)) != given, None)
    if given.dtype == pl.String:
        return _of_texts(given.str.strip_chars(), dtype)
    return pl.repeat(None, len(given), dtype=dtype, eager=True).alias(given.name)


def _of_texts(texts: pl.Series, dtype: pl.DataType) -> pl.Series:
    whole = texts.cast(dtype, strict=False)
    for reread in (_without_zeros, _one_by_one):
        left = (whole.is_null() & texts.is_not_null()).arg_true()
        if left.is_empty():
            break
        whole = whole.scatter(left, reread(texts.gather(left)).cast(dtype, strict=False))
    return whole


def _without_zeros(texts: pl.Series) -> pl.Series:
    return texts.str.replace(r"^([+-]?[0-9]+)\.0*$", "$1")


def _one_by_one(texts: pl.Series) -> pl.Series:
    """As text again: what is left are exponents, which are few, and what is no whole number at all."""
    found = (whole_number(text) for text in texts)
    return pl.Series([None if number is None else str(number) for number in found], dtype=pl.String)
