"""Sum whole numbers and decimals exactly, or refuse the batch: sums of Polars and NumPy wrap around without an error."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from keyfold.privacy import MASK, MaskableError


class TotalTooLargeError(MaskableError, ArithmeticError):
    """A total does not fit into its column.

    Args:
        column: name of the total.
        key: key of the total, by column.
        kind: describes the type of the column.
    """

    def __init__(self, column: str, key: Mapping[str, Any], total: Any, kind: str = "a 64-bit integer") -> None:
        self._column, self._key, self._kind = column, key, kind
        super().__init__(self._message(key, f"comes to {total}, which {kind} does not hold"))

    def masked(self, private: Collection[str]) -> str:
        """Return the message without the total, which may depend on private columns, and without private values of the key."""
        shown = {name: MASK if name in private else value for name, value in self._key.items()}
        return self._message(shown, f"comes to more than {self._kind} holds")

    def _message(self, key: Mapping[str, Any], comes_to: str) -> str:
        named = ", ".join(f"{name}={value}" for name, value in key.items())
        return (
            f"the total of {self._column} for {named} {comes_to}; correct the values at their source, rebuild the event table "
            "(`keyfold ingest STREAM --rebuild`), and start a new generation with --full-refresh"
        )


def summed(rows: pl.DataFrame, by: Sequence[str], columns: Sequence[str], *more: pl.Expr) -> pl.DataFrame:
    """Sum columns (int64, or decimals of 38 digits) by key, with `more` as further aggregations.

    Raises:
        TotalTooLargeError: a sum does not fit; names column, key and total.

    Example:
        >>> summed(pl.DataFrame({"item": ["a", "a"], "quantity": [2**62, -5]}), ["item"], ["quantity"])["quantity"].to_list()
        [4611686018427387899]
    """
    about = {name: f"#{name}" for name in columns if isinstance(rows.schema[name], pl.Decimal)}
    floats = (units(pl.col(name)).cast(pl.Float64).sum().alias(one) for name, one in about.items())
    totals = rows.group_by(by).agg(*more, *(units(pl.col(name)).sum() for name in columns), *floats)
    keys = totals.select(by)
    fitting = (
        fitted(totals[name], rows.schema[name], keys, totals[about[name]] if name in about else None)
        for name in columns
    )
    return totals.with_columns(fitting).drop(about.values())


def units(values: pl.Expr) -> pl.Expr:
    """Return whole numbers, or decimals as whole numbers of their last digit, in 128 bits, in which 64-bit sums do not wrap."""
    return values.to_physical().cast(pl.Int128)


def fitted(totals: pl.Series, kind: pl.DataType, keys: pl.DataFrame, about: pl.Series | None = None) -> pl.Series:
    """Convert totals of `units`, each with its key, to a column's type.

    Args:
        totals: the totals; their name is that of the column.
        kind: int64, or a decimal of 38 digits.
        keys: a row for each total.
        about: the totals as sums of floats, which show where one of decimals has wrapped around at 128 bits.

    Raises:
        TotalTooLargeError: a total does not fit; names column, total, and the first key that has one.
    """
    scale = kind.scale if isinstance(kind, pl.Decimal) else None
    whole = totals.cast(pl.Int64 if scale is None else pl.Decimal(38, 0), strict=False)
    unfit = whole.is_null() & totals.is_not_null()
    if about is not None:
        unfit |= (totals.cast(pl.Float64) - about).abs() > _WRAPPED
    if unfit.any():
        shown = totals if about is None or scale is None else about
        *key, total = keys.hstack([shown.alias("#total")]).filter(unfit).sort(keys.columns, maintain_order=True).row(0)
        named = dict(zip(keys.columns, key, strict=True))
        if scale is None:
            raise TotalTooLargeError(totals.name, named, total)
        raise TotalTooLargeError(totals.name, named, f"{total / 10**scale:.6g}", "a decimal of 38 digits")
    return whole if scale is None else whole * pl.Series([Decimal(1).scaleb(-scale)], dtype=pl.Decimal(38, scale))


_WRAPPED = 1e38
"""A sum that wraps around differs from that of floats by 2**128, and any other by what floats round."""
