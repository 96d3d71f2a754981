"""Convert values of any table to the types of a job's state exactly: the same value, or NULL. Also within lists and structs."""

from functools import partial

import polars as pl
from polars.datatypes import DataTypeClass

from keyfold.state.rows.exact_cast import exact_cast


def fitted(value: pl.Expr, have: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    """Return an expression that converts a value; NULL if it does not fit (see `exact_cast`).

    A list or struct fits if all of its values do. Missing fields of a struct become NULL; a field that the wanted type does not
    have must be NULL.

    Args:
        value: an expression.
        have: its type.
        wanted: the type of a column of state.
    """
    if have == wanted and not _holds_times(have):
        return value
    if isinstance(have, pl.Array):
        value, have = value.arr.to_list(), pl.List(have.inner)
    if isinstance(have, pl.List) and isinstance(wanted, pl.List):
        return _fitted_list(value, _kind(have.inner), _kind(wanted.inner))
    if isinstance(have, pl.Struct) and isinstance(wanted, pl.Struct):
        return _fitted_struct(value, have, wanted)
    return value.map_batches(partial(exact_cast, wanted=wanted), return_dtype=wanted, is_elementwise=True)


def _holds_times(kind: pl.DataType) -> bool:
    """Whether values of a type may be times outside of the calendar, which fit no column."""
    if isinstance(kind, pl.List | pl.Array):
        return _holds_times(_kind(kind.inner))
    if isinstance(kind, pl.Struct):
        return any(_holds_times(_kind(field.dtype)) for field in kind.fields)
    return isinstance(kind, pl.Datetime)


def _fitted_list(value: pl.Expr, have: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    fits = value.list.eval(fitted(pl.element(), have, wanted))
    # An element that does not fit has become NULL. Then the list has fewer values than before, and does not fit either.
    return pl.when(_known(fits) == _known(value)).then(fits)


def _known(values: pl.Expr) -> pl.Expr:
    return values.list.drop_nulls().list.len()


def _fitted_struct(value: pl.Expr, have: pl.Struct, wanted: pl.Struct) -> pl.Expr:
    given = {field.name: _kind(field.dtype) for field in have.fields}
    made, faults = [], []
    for field in wanted.fields:
        kind = _kind(field.dtype)
        if field.name in given:
            part = value.struct.field(field.name)
            fits = fitted(part, given.pop(field.name), kind)
            faults.append(fits.is_null() & part.is_not_null())
        else:
            fits = pl.lit(None, kind)
        made.append(fits.alias(field.name))
    faults += [value.struct.field(name).is_not_null() for name in given]
    # A NULL struct stays NULL: `pl.struct` alone would make a struct of NULLs of it.
    return pl.when(value.is_not_null(), *(~fault for fault in faults)).then(pl.struct(made))


def _kind(kind: pl.DataType | DataTypeClass) -> pl.DataType:
    return kind() if isinstance(kind, type) else kind
