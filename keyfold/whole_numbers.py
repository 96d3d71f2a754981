"""Convert text, decimals and floats to integers exactly. Text and decimals do not pass through a float."""

import re
from decimal import Decimal, InvalidOperation

import polars as pl

_MAX_FLOAT = {pl.Float64: 2**53 - 1, pl.Float32: 2**24 - 1, pl.Float16: 2**11 - 1}
"""The largest float that represents a single whole number: 2^53 + 1 is rounded to 2^53."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_MAX_DIGITS = 40
"""More digits than any 128-bit integer has."""


def whole_number(text: str) -> int | None:
    """Parse a decimal number as an integer; None if it has a fraction or more than 40 digits, or is no number.

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
    # Check before the conversion: 1e999999999 would become an integer of 400 MB.
    if number.adjusted() >= _MAX_DIGITS:
        return None
    whole = int(number)
    return whole if whole == number else None


def whole_numbers(given: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Convert values to an integer type; NULL for a value that is not exactly an integer of that type.

    2.0 becomes 2: pandas stores integers with gaps as floats. A float of 2^53 or more becomes NULL, since several whole
    numbers are rounded to it.

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
        # The cast drops a fraction, so the result is compared with the given value.
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
    """Parse the remaining texts one by one: numbers with exponents, which are few, and texts that are no whole numbers."""
    found = (whole_number(text) for text in texts)
    return pl.Series([None if number is None else str(number) for number in found], dtype=pl.String)
