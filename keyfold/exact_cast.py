"""Cast values exactly: the result is the same value, or NULL. A plain cast rounds, overflows, or drops digits."""

import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation

import numpy as np
import polars as pl

from keyfold.times import exact_times

_SAFE_DIGITS = {pl.Float64: 15, pl.Float32: 6}
"""Digits of a number up to which its nearest float is distinct from those of all other such numbers."""
_SMALLEST = {pl.Float64: 2.3e-308, pl.Float32: 1.2e-38}
"""Floats nearer to zero have fewer digits."""
_LONGEST = 100
"""Most characters of a number: 64-bit floats need 17 digits, and decimals have at most 38."""


def exact_cast(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    """Cast values to a type that is not nested; NULL for a value that the type does not have.

    - To an integer: 2.0 becomes 2; 2.5 becomes NULL, and so does a float of 2^53 or more (see `whole_numbers`).
    - To a float: a number, if the float written with as many digits is that number. 0.1 is valid, and 2^53 + 1 is not.
    - To a decimal or a date: values that need no rounding. To a time: see `exact_times`.
    - To text: any value. A number is no time, since it has no unit; true is no integer; 0 and 1 are truth values.

    Example:
        >>> exact_cast(pl.Series([2**53, 2**53 + 1]), pl.Float64()).to_list()
        [9007199254740992.0, None]
        >>> exact_cast(pl.Series(["1.50", "1.505"]), pl.Decimal(10, 2)).to_list()
        [Decimal('1.50'), None]
    """
    have = values.dtype
    if have == pl.Null or (have == wanted and not isinstance(have, pl.Datetime)):
        return values.cast(wanted)
    is_time = have.is_temporal(), wanted.is_temporal()
    is_number = have.is_numeric(), wanted.is_numeric()
    if have.is_nested() or wanted.is_nested() or (True in is_time and True in is_number):
        return pl.repeat(None, len(values), dtype=wanted, eager=True).alias(values.name)
    make = next((make for is_kind, make in _MAKERS if is_kind(wanted)), _round_trip)
    return make(values.str.strip_chars() if have == pl.String and wanted != pl.String else values, wanted)


def _as_text(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    return values.cast(wanted, strict=False)


def _as_date(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    if values.dtype == pl.String:
        return values.str.to_date("%Y-%m-%d", strict=False)
    return _round_trip(values, wanted)


def _as_bytes(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    # `json_lines` writes bytes as base64.
    return values.str.decode("base64", strict=False) if values.dtype == pl.String else _round_trip(values, wanted)


def _as_truth(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    if values.dtype != pl.String:
        return _round_trip(values, wanted)
    return values.str.to_lowercase().replace_strict({"true": True, "false": False}, default=None, return_dtype=wanted)


def _as_time(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    if values.dtype.is_temporal() and not isinstance(values.dtype, pl.Date | pl.Datetime):
        return _round_trip(values, wanted)
    times = exact_times(values)
    converted = times.cast(wanted)
    return converted.set(~converted.cast(times.dtype).eq_missing(times), None)


def _round_trip(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    try:
        converted = values.cast(wanted, strict=False)
        is_same = converted.cast(values.dtype, strict=False).eq_missing(values)
    # Polars has no cast between some types, also with `strict=False`.
    except pl.exceptions.PolarsError:
        return pl.repeat(None, len(values), dtype=wanted, eager=True)
    return converted.set(~is_same, None)


def _as_float(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    if values.dtype.is_integer() or values.dtype == pl.Boolean:
        return _round_trip(values, wanted)
    kind, texts = wanted.base_type(), values.cast(pl.String)
    converted = texts.cast(wanted, strict=False)
    digits = (
        texts.str.extract(r"^[+-]?([0-9.]*)").str.replace(".", "", literal=True).str.strip_chars("0").str.len_chars()
    )
    is_sure = (digits <= _SAFE_DIGITS[kind]) & converted.is_finite() & (converted.abs() >= _SMALLEST[kind])
    is_sure |= texts.str.to_lowercase().str.contains(r"^[+-]?(?:nan|inf|infinity)$")
    return _one_by_one(texts, converted, is_sure, lambda number: _nearest(number, is_narrow=kind == pl.Float32))


def _nearest(number: Decimal, *, is_narrow: bool) -> float | None:
    """Return the nearest float, if it is the number when it is written with as many digits, or with the fewest that tell it.

    These are not always the same: 2**-24 is halfway between two numbers of 16 digits, and `%.15e` writes the other one than Python;
    and below a power of two floats are twice as dense as above it.
    """
    try:
        nearest = float(number)
        if is_narrow:
            (nearest,) = struct.unpack("f", struct.pack("f", nearest))
    except OverflowError:
        return None
    digits = len("".join(map(str, number.as_tuple().digits)).strip("0"))
    shortest = np.format_float_scientific(np.float32(nearest) if is_narrow else np.float64(nearest))
    written = (f"{nearest:.{max(digits - 1, 0)}e}", shortest)
    return nearest if number in map(Decimal, written) else None


def _as_decimal(values: pl.Series, wanted: pl.DataType) -> pl.Series:
    assert isinstance(wanted, pl.Decimal)  # noqa: S101 - narrows the type; the caller has checked it
    if not values.dtype.is_float() and values.dtype != pl.String:
        return _round_trip(values, wanted)
    if values.dtype.is_float():
        # As in `whole_numbers`: from 2^53 on, several whole numbers have the same float.
        values = values.set(values.abs() >= 2**53, None)
    texts = values.cast(pl.String)
    converted = texts.cast(wanted, strict=False)
    is_sure = texts.str.contains(
        rf"^[+-]?[0-9]{{1,{wanted.precision - wanted.scale}}}(?:\.[0-9]{{0,{wanted.scale}}})?$"
    )
    return _one_by_one(texts, converted, is_sure, lambda number: _rounded(number, wanted.precision, wanted.scale))


def exact_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Parse a decimal number; None if it is none, or has more digits in all or after its point.

    Example:
        >>> exact_decimal("1.50", 10, 1), exact_decimal("1.55", 10, 1)
        (Decimal('1.5'), None)
    """
    number = _number(text)
    return None if number is None else _rounded(number, precision, scale)


def _rounded(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """Return the number with `scale` digits after its point; None if it has more."""
    context = Context(prec=precision, traps=[InvalidOperation, Inexact])
    try:
        return number.quantize(Decimal(1).scaleb(-scale), context=context)
    except (InvalidOperation, Inexact):
        return None


def _one_by_one(
    texts: pl.Series, converted: pl.Series, is_sure: pl.Series, make: Callable[[Decimal], float | Decimal | None]
) -> pl.Series:
    """Keep the results that are certainly exact, and convert the other texts, which are few, in plain Python."""
    left = (~is_sure.fill_null(value=False) & texts.is_not_null()).arg_true()
    numbers = (_number(text) for text in texts.gather(left))
    again = [None if number is None else make(number) for number in numbers]
    return converted.scatter(left, pl.Series(again, dtype=converted.dtype)) if len(left) else converted


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text) if text.isascii() and "_" not in text and len(text) <= _LONGEST else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


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


def whole_numbers(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Convert values to an integer type; NULL for a value that is not exactly an integer of that type.

    2.0 becomes 2: pandas stores integers with gaps as floats. A float of 2^53 or more becomes NULL, since several whole
    numbers are rounded to it.

    Example:
        >>> whole_numbers(pl.Series(["9007199254740993.0", "2.5"]), pl.Int64()).to_list()
        [9007199254740993, None]
        >>> whole_numbers(pl.Series([2.0, 9007199254740993.0]), pl.Int64()).to_list()
        [2, None]
    """
    if values.dtype.is_integer():
        return values.cast(dtype, strict=False)
    if values.dtype.is_float():
        is_exact = (values.abs() <= _MAX_FLOAT[values.dtype.base_type()]) & (values == values.floor())
        return values.set(~is_exact, None).cast(dtype, strict=False)
    if isinstance(values.dtype, pl.Decimal):
        whole = values.cast(dtype, strict=False)
        # The cast drops a fraction, so the result is compared with the given value.
        return whole.set(whole.cast(pl.Decimal(38, values.dtype.scale)) != values, None)
    if values.dtype == pl.String:
        return _of_texts(values.str.strip_chars(), dtype)
    return pl.repeat(None, len(values), dtype=dtype, eager=True).alias(values.name)


def _of_texts(texts: pl.Series, dtype: pl.DataType) -> pl.Series:
    whole = texts.cast(dtype, strict=False)
    for reread in (_without_zeros, _parsed):
        left = (whole.is_null() & texts.is_not_null()).arg_true()
        if left.is_empty():
            break
        whole = whole.scatter(left, reread(texts.gather(left)).cast(dtype, strict=False))
    return whole


def _without_zeros(texts: pl.Series) -> pl.Series:
    return texts.str.replace(r"^([+-]?[0-9]+)\.0*$", "$1")


def _parsed(texts: pl.Series) -> pl.Series:
    """Parse the remaining texts one by one: numbers with exponents, which are few, and texts that are no whole numbers."""
    numbers = (whole_number(text) for text in texts)
    return pl.Series([None if number is None else str(number) for number in numbers], dtype=pl.String)


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
