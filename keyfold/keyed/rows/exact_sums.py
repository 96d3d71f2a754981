"""Sum whole numbers and decimals exactly, or refuse the batch: sums of Polars and NumPy wrap around without an error."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from keyfold.privacy import MASK, MaskableError


class TotalTooLargeError(MaskableError, ArithmeticError):
    """A total of a column does not fit into its type; names the key, but not the total, which may depend on private columns."""

    def __init__(self, column: str, key: Mapping[str, Any], kind: str) -> None:
        self._column, self._key, self._kind = column, key, kind
        super().__init__(self.masked(()))

    def masked(self, private: Collection[str]) -> str:
        """Return the message without private values of the key."""
        named = ", ".join(f"{name}={MASK if name in private else value}" for name, value in self._key.items())
        return (
            f"the total of {self._column} for {named} does not fit into {self._kind}; correct the values at their source, rebuild "
            "the event table (`keyfold ingest STREAM --rebuild`), and start a new generation with --full-refresh"
        )


def summed(rows: pl.DataFrame, by: Sequence[str], columns: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
    """Sum columns (int64, or decimals of 38 digits) by key, with `more` as further aggregations.

    Raises:
        TotalTooLargeError: a sum does not fit.

    Example:
        >>> summed(pl.DataFrame({"item": ["a", "a"], "quantity": [2**62, -5]}), ["item"], ["quantity"])["quantity"].to_list()
        [4611686018427387899]
    """
    totals = rows.group_by(by).agg(*more, *(_total(pl.col(name), rows.schema[name]) for name in columns))
    keys = totals.select(by)
    return totals.with_columns(fitted(totals[name], rows.schema[name], keys) for name in columns)


def units(values: pl.Expr) -> pl.Expr:
    """Return whole numbers, or decimals as whole numbers of their last digit, in 128 bits, in which 64-bit sums do not wrap."""
    return values.to_physical().cast(pl.Int128)


def _total(values: pl.Expr, kind: pl.DataType) -> pl.Expr:
    total = units(values).sum()
    if not isinstance(kind, pl.Decimal):
        return total
    # At 128 bits, sums of decimals may wrap around: they then differ from a sum of floats by 2**128, others by what floats round.
    fits = (total.cast(pl.Float64) - units(values).cast(pl.Float64).sum()).abs() < 1e38
    return pl.when(fits).then(total).otherwise(pl.lit(2**127 - 1, pl.Int128))


def fitted(totals: pl.Series, kind: pl.DataType, keys: pl.DataFrame) -> pl.Series:
    """Convert totals of `units`, each with its key, to a column's type: int64, or a decimal of 38 digits.

    Raises:
        TotalTooLargeError: a total does not fit; names its column, and the first key that has one.
    """
    scale = kind.scale if isinstance(kind, pl.Decimal) else None
    whole = totals.cast(pl.Int64 if scale is None else pl.Decimal(38, 0), strict=False)
    unfit = whole.is_null() & totals.is_not_null()
    if unfit.any():
        key = keys.filter(unfit).sort(keys.columns).row(0, named=True)
        raise TotalTooLargeError(totals.name, key, "a 64-bit integer" if scale is None else "a decimal of 38 digits")
    return whole if scale is None else whole * pl.Series([Decimal(1).scaleb(-scale)], dtype=pl.Decimal(38, scale))
