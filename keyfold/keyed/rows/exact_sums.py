"""Sum whole numbers and decimals exactly, or refuse the batch: sums of Polars and NumPy wrap around without an error."""

from collections.abc import Sequence
from decimal import Decimal

import polars as pl

from keyfold.privacy import ShowableError


class TotalTooLargeError(ShowableError, ArithmeticError):
    """A total of a column does not fit into its type."""


def summed(rows: pl.DataFrame, by: Sequence[str], columns: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
    """Sum columns (int64, or decimals of 38 digits) by key, with `more` as further aggregations.

    Raises:
        TotalTooLargeError: a sum does not fit.

    Example:
        >>> summed(pl.DataFrame({"item": ["a", "a"], "quantity": [2**62, -5]}), ["item"], ["quantity"])["quantity"].to_list()
        [4611686018427387899]
    """
    totals = rows.group_by(by).agg(*more, *(_total(pl.col(name), rows.schema[name]) for name in columns))
    return totals.with_columns(fitted(totals[name], rows.schema[name]) for name in columns)


def units(values: pl.Expr) -> pl.Expr:
    """Return whole numbers, or decimals as whole numbers of their last digit, in 128 bits, in which 64-bit sums do not wrap."""
    return values.to_physical().cast(pl.Int128)


def _total(values: pl.Expr, kind: pl.DataType) -> pl.Expr:
    total = units(values).sum()
    # At 128 bits, sums of decimals may wrap around: they then differ from a sum of floats by 2**128, others by what floats round.
    fits = (total.cast(pl.Float64) - units(values).cast(pl.Float64).sum()).abs() < 1e38
    return pl.when(fits).then(total).otherwise(pl.lit(2**127 - 1, pl.Int128)) if kind.is_decimal() else total


def fitted(totals: pl.Series, kind: pl.DataType) -> pl.Series:
    """Convert totals of `units` to a column's type: int64, or a decimal of 38 digits.

    Raises:
        TotalTooLargeError: a total does not fit; names its column.
    """
    try:
        whole = totals.cast(pl.Decimal(38, 0) if isinstance(kind, pl.Decimal) else pl.Int64)
    except pl.exceptions.InvalidOperationError:
        raise TotalTooLargeError(
            f"a total of {totals.name} does not fit into {kind}; correct the values at their source, rebuild the event table "
            "(`keyfold ingest STREAM --rebuild`), and start a new generation with --full-refresh"
        ) from None
    return whole * pl.Series([Decimal(1).scaleb(-kind.scale)], dtype=kind) if isinstance(kind, pl.Decimal) else whole
