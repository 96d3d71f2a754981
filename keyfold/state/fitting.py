"""Values of any table in the types of a job's state: the same value, or NULL."""

import polars as pl

from keyfold.whole_numbers import whole_numbers


def fitted(value: pl.Expr, have: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    """The value in the wanted type, NULL where it does not fit.

    Args:
        value: any expression.
        have: its type.
        wanted: the type of a column of state. As an integer, 2.0 is 2, and 2.5 does not fit.
    """
    if isinstance(have, pl.Array):
        value, have = value.arr.to_list(), pl.List(have.inner)
    if isinstance(have, pl.List) and isinstance(wanted, pl.List):
        return _fitted_list(value, pl.List(have.inner), pl.List(wanted.inner))
    if _must_be_whole(have, wanted):
        return _whole(value, wanted)
    fits = value
    if isinstance(wanted, pl.Datetime):
        fits = _time(value, have)
    elif isinstance(have, pl.String) and isinstance(wanted, pl.Date):
        fits = value.str.to_date("%Y-%m-%d", strict=False)
    elif have.is_nested() != wanted.is_nested():
        fits = pl.lit(None)
    elif isinstance(have, pl.String) and isinstance(wanted, pl.Binary):
        fits = value.str.decode("base64", strict=False)  # as `json_lines` writes bytes
    return fits.cast(wanted, strict=False)


def _must_be_whole(have: object, wanted: object) -> bool:
    """Whether the cast would drop a fraction, or go by way of a float."""
    if not isinstance(have, pl.DataType) or not isinstance(wanted, pl.DataType) or not wanted.is_integer():
        return False
    return isinstance(have, pl.String) or have.is_float() or have.is_decimal()


def _whole(value: pl.Expr, wanted: pl.DataType) -> pl.Expr:
    return value.map_batches(lambda given: whole_numbers(given, wanted), return_dtype=wanted, is_elementwise=True)


def _fitted_list(value: pl.Expr, have: pl.List, wanted: pl.List) -> pl.Expr:
    fits = value
    if isinstance(wanted.inner, pl.DataType) and _must_be_whole(have.inner, wanted.inner):
        fits = value.list.eval(_whole(pl.element(), wanted.inner))
    fits = fits.cast(wanted, strict=False)
    # A list fits if each of its values does: a cast makes those that do not NULL, and lets the list stand.
    return pl.when(_known(fits) == _known(value)).then(fits)


def _known(values: pl.Expr) -> pl.Expr:
    return values.list.drop_nulls().list.len()


def _time(value: pl.Expr, have: pl.DataType) -> pl.Expr:
    if isinstance(have, pl.String):
        return value.str.to_datetime(time_unit="us", time_zone="UTC", strict=False)
    if isinstance(have, pl.Datetime):
        return value.dt.replace_time_zone("UTC") if have.time_zone is None else value.dt.convert_time_zone("UTC")
    if isinstance(have, pl.Date):
        return value.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    # A number says no unit: whether these are seconds or microseconds, nobody knows but who wrote them.
    return pl.lit(None)
