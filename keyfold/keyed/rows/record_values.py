"""Make columns of Python values, and refuse values that do not fit the column's type.

Polars alone would change some of them silently: 1.5 to 1 in a column of whole numbers, and an unfit value in a list to NULL.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, cast

import polars as pl

from keyfold.keyed.rows.codec import AnswerError


def column_of(name: str, values: Sequence[Any], kind: pl.DataType, what: str) -> pl.Series:
    """Make a column of Python values.

    Args:
        name: name of the column.
        values: the values; None for NULL.
        kind: type of the column.
        what: names the source of the values in errors.

    Raises:
        AnswerError: a value has another type, or does not fit; names the column and the value's type, and not the value.

    Example:
        >>> column_of("clicks", [1, None], pl.Int64(), "a record").to_list()
        [1, None]
        >>> column_of("clicks", [1.5], pl.Int64(), "a record")
        Traceback (most recent call last):
        keyfold.keyed.rows.codec.AnswerError: a record has a value of type float in clicks, which holds Int64
    """
    # First compare the types only: for most columns that is enough.
    if not {type(value) for value in values} <= {type(None), *_plain(kind)}:
        for value in values:
            if value is not None and not _is_held(value, kind):
                raise AnswerError(f"{what} has a value of type {_type(value)} in {name}, which holds {kind}")
        # Polars expects all values to have the type of the first one.
        make = float if kind.is_float() else Decimal if isinstance(kind, pl.Decimal) else None
        values = values if make is None else [None if value is None else make(value) for value in values]
    try:
        return pl.Series(name, values, kind)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        # From None: the error quotes the value.
        raise AnswerError(f"{what} has a value in {name} that does not fit into {kind}") from None


_PLAIN: dict[Any, tuple[type, ...]] = {
    pl.Boolean: (bool,),
    pl.String: (str,),
    pl.Binary: (bytes,),
    pl.Datetime: (datetime,),
    pl.Date: (date,),
    pl.Time: (time,),
    pl.Duration: (timedelta,),
}


def _plain(kind: pl.DataType) -> tuple[type, ...]:
    """Return the Python types whose values Polars either stores unchanged, or refuses."""
    if kind.is_integer():
        return int, bool
    return (float,) if kind.is_float() else _PLAIN.get(kind.base_type(), ())


def _is_held(value: Any, kind: pl.DataType) -> bool:
    if isinstance(kind, pl.List | pl.Array):
        inner = cast(pl.DataType, kind.inner)
        return isinstance(value, list | tuple) and all(part is None or _is_held(part, inner) for part in value)
    if isinstance(kind, pl.Struct):
        fields = {field.name: cast(pl.DataType, field.dtype) for field in kind.fields}
        is_named = isinstance(value, Mapping) and value.keys() == fields.keys()
        return is_named and all(value[name] is None or _is_held(value[name], part) for name, part in fields.items())
    if kind.is_integer():
        return isinstance(value, Integral)
    if kind.is_float():
        return isinstance(value, Real) and (not isinstance(value, Integral) or _is_exact(int(value)))
    if isinstance(kind, pl.Decimal):
        return isinstance(value, Integral) or (isinstance(value, Decimal) and _decimals(value) <= kind.scale)
    # Types that are not listed take whatever value Polars takes.
    return type(value) in (_plain(kind) or (type(value),))


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _decimals(value: Decimal) -> float:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else float("inf")


def _type(value: Any) -> str:
    return type(value).__name__
