"""Values of one type as another: the same value, or NULL. A cast alone rounds, wraps and drops what does not fit."""

import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation

import polars as pl

from keyfold.exact_times import exact_times
from keyfold.whole_numbers import whole_numbers

_SAFE_DIGITS = {pl.Float64: 15, pl.Float32: 6}
"""A number of so many digits is told from all others by the nearest float."""
_SMALLEST = {pl.Float64: 2.3e-308, pl.Float32: 1.2e-38}
"""Nearer to zero, floats have fewer digits."""
_LONGEST = 100
"""Characters of a number: floats of 64 bits are told apart by 17 digits, and decimals have at most 38."""


def exact_cast(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    """The values in another type that is not nested; NULL where it does not have the value.

    - 2.0 is 2, and 2.5 is no integer. A float of 2^53 or more is none either (see `whole_numbers`).
    - A number is a float if the float, written with as many digits, is that number: 0.1 is, and 2^53 + 1 is not.
    - A decimal, and a date, take what they need not round; a time what `exact_times` says.
    - Anything has a text. A number is no time, since it says no unit; true is no integer, and 0 and 1 are truth values.

    Example:
        >>> exact_cast(pl.Series([2**53, 2**53 + 1]), pl.Float64()).to_list()
        [9007199254740992.0, None]
        >>> exact_cast(pl.Series(["1.50", "1.505"]), pl.Decimal(10, 2)).to_list()
        [Decimal('1.50'), None]
    """
    have = given.dtype
    if have == pl.Null or (have == wanted and not isinstance(have, pl.Datetime)):
        return given.cast(wanted)
    is_time = have.is_temporal(), wanted.is_temporal()
    is_number = have.is_numeric(), wanted.is_numeric()
    if have.is_nested() or wanted.is_nested() or (True in is_time and True in is_number):
        return pl.repeat(None, len(given), dtype=wanted, eager=True).alias(given.name)
    make = next((make for is_kind, make in _MAKERS if is_kind(wanted)), _there_and_back)
    return make(given.str.strip_chars() if have == pl.String and wanted != pl.String else given, wanted)


def _as_text(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    return given.cast(wanted, strict=False)


def _as_date(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    if given.dtype == pl.String:
        return given.str.to_date("%Y-%m-%d", strict=False)
    return _there_and_back(given, wanted)


def _as_bytes(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    # As `json_lines` writes bytes.
    return given.str.decode("base64", strict=False) if given.dtype == pl.String else _there_and_back(given, wanted)


def _as_truth(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    if given.dtype != pl.String:
        return _there_and_back(given, wanted)
    return given.str.to_lowercase().replace_strict({"true": True, "false": False}, default=None, return_dtype=wanted)


def _as_time(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    if given.dtype.is_temporal() and not isinstance(given.dtype, pl.Date | pl.Datetime):
        return _there_and_back(given, wanted)
    times = exact_times(given)
    made = times.cast(wanted)
    return made.set(~made.cast(times.dtype).eq_missing(times), None)


def _there_and_back(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    try:
        made = given.cast(wanted, strict=False)
        is_same = made.cast(given.dtype, strict=False).eq_missing(given)
    except pl.exceptions.PolarsError:
        return pl.repeat(None, len(given), dtype=wanted, eager=True)
    return made.set(~is_same, None)


def _as_float(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    if given.dtype.is_integer() or given.dtype == pl.Boolean:
        return _there_and_back(given, wanted)
    kind, texts = wanted.base_type(), given.cast(pl.String)
    made = texts.cast(wanted, strict=False)
    digits = (
        texts.str.extract(r"^[+-]?([0-9.]*)").str.replace(".", "", literal=True).str.strip_chars("0").str.len_chars()
    )
    is_sure = (digits <= _SAFE_DIGITS[kind]) & made.is_finite() & (made.abs() >= _SMALLEST[kind])
    is_sure |= texts.str.to_lowercase().str.contains(r"^[+-]?(?:nan|inf|infinity)$")
    return _one_by_one(texts, made, is_sure, lambda number: _nearest(number, is_narrow=kind == pl.Float32))


def _nearest(number: Decimal, *, is_narrow: bool) -> float | None:
    """The nearest float, if it is told from all other numbers of so many digits."""
    try:
        nearest = float(number)
        if is_narrow:
            (nearest,) = struct.unpack("f", struct.pack("f", nearest))
    except OverflowError:
        return None
    digits = len("".join(map(str, number.as_tuple().digits)).strip("0"))
    return nearest if Decimal(f"{nearest:.{max(digits - 1, 0)}e}") == number else None


def _as_decimal(given: pl.Series, wanted: pl.DataType) -> pl.Series:
    assert isinstance(wanted, pl.Decimal)  # noqa: S101 - narrows what the caller looked at
    if not given.dtype.is_float() and given.dtype != pl.String:
        return _there_and_back(given, wanted)
    if given.dtype.is_float():
        # As `whole_numbers`: from there on a float stands for several whole numbers.
        given = given.set(given.abs() >= 2**53, None)
    texts = given.cast(pl.String)
    made = texts.cast(wanted, strict=False)
    is_sure = texts.str.contains(
        rf"^[+-]?[0-9]{{1,{wanted.precision - wanted.scale}}}(?:\.[0-9]{{0,{wanted.scale}}})?$"
    )
    return _one_by_one(texts, made, is_sure, lambda number: _rounded(number, wanted.precision, wanted.scale))


def _rounded(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """The number with so many digits after its point, if it has no more."""
    context = Context(prec=precision, traps=[InvalidOperation, Inexact])
    try:
        return number.quantize(Decimal(1).scaleb(-scale), context=context)
    except (InvalidOperation, Inexact):
        return None


def _one_by_one(
    texts: pl.Series, made: pl.Series, is_sure: pl.Series, make: Callable[[Decimal], float | Decimal | None]
) -> pl.Series:
    """What was made of texts where that is sure; the others, which are few, are made in plain Python."""
    left = (~is_sure.fill_null(value=False) & texts.is_not_null()).arg_true()
    numbers = (_number(text) for text in texts.gather(left))
    again = [None if number is None else make(number) for number in numbers]
    return made.scatter(left, pl.Series(again, dtype=made.dtype)) if len(left) else made


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text) if text.isascii() and "_" not in text and len(text) <= _LONGEST else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


_MAKERS: tuple[tuple[Callable[[pl.DataType], bool], Callable[[pl.Series, pl.DataType], pl.Series]], ...] = (
    (lambda kind: kind.is_integer(), whole_numbers),
    (lambda kind: kind.is_float(), _as_float),
    (lambda kind: kind.is_decimal(), _as_decimal),
    (lambda kind: isinstance(kind, pl.Datetime), _as_time),
    (lambda kind: kind == pl.String, _as_text),
    (lambda kind: kind == pl.Date, _as_date),
    (lambda kind: kind == pl.Binary, _as_bytes),
    (lambda kind: kind == pl.Boolean, _as_truth),
)
