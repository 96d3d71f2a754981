"""Sum whole numbers and decimals exactly, or refuse the batch: sums of Polars and NumPy wrap around without an error."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

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
    decimals = [name for name in columns if isinstance(rows.schema[name], pl.Decimal)]
    wide = [(pl.col(name) if name in decimals else pl.col(name).cast(pl.Int128)).sum() for name in columns]
    # A sum of decimals wraps at 128 bits. It did not if the sum of the values' upper halves fits into 64 bits.
    upper = [(pl.col(name).to_physical() // 2**64).sum().alias(f"#{name}") for name in decimals]
    exact = {name: pl.col(name).cast(pl.Int64, strict=False) for name in columns}
    for name in decimals:
        exact[name] = pl.when(_fits(f"#{name}", pl.Int64) & _fits(name, pl.Decimal(38, 0))).then(name)
    totals = rows.group_by(by).agg(*more, *wide, *upper).with_columns(**exact).drop(f"#{name}" for name in decimals)
    for name in columns:
        if totals[name].has_nulls():
            failed = rows.join(
                totals.filter(pl.col(name).is_null()), on=by, how="semi", nulls_equal=True, maintain_order="left"
            )
            # The first key in order of the rows, which is the same each time.
            raise _too_large(failed.join(failed[:1], on=by, how="semi", nulls_equal=True).select(*by, name))
    return totals


def sums_from(first: NDArray[np.intp], values: NDArray[np.int64]) -> pl.Series:
    """Sum the values from each of the first rows up to the next, in 128 bits, for `in_int64`."""
    # Sums of halves of 32 bits fit into 64.
    upper, lower = (pl.Series(np.add.reduceat(half, first)) for half in (values >> 32, values & (2**32 - 1)))
    return upper.cast(pl.Int128) * pl.Series([2**32]) + lower


def in_int64(totals: pl.Series, column: str, keys: pl.Series) -> NDArray[np.int64]:
    """Convert totals of 128 bits, each with its key; the name of `keys` is that of the key column.

    Raises:
        TotalTooLargeError: a total does not fit; names column, key and total.
    """
    narrow = totals.cast(pl.Int64, strict=False)
    if narrow.has_nulls():
        row = int(narrow.is_null().arg_max() or 0)
        raise TotalTooLargeError(column, {keys.name: keys[row]}, totals[row])
    return narrow.to_numpy()


def in_decimals(totals: pl.Series, scale: int, column: str, keys: pl.Series) -> pl.Series:
    """Convert totals in units of the last digit, each with its key, to decimals of 38 digits.

    Raises:
        TotalTooLargeError: a total does not fit; names column, key and total.
    """
    whole = totals.cast(pl.Decimal(38, 0), strict=False)
    if whole.has_nulls():
        row = int(whole.is_null().arg_max() or 0)
        raise TotalTooLargeError(
            column, {keys.name: keys[row]}, f"{totals[row] / 10**scale:.6g}", "a decimal of 38 digits"
        )
    return whole * pl.Series([Decimal(1).scaleb(-scale)], dtype=pl.Decimal(38, scale))


def _fits(column: str, kind: Any) -> pl.Expr:
    return pl.col(column).to_physical().cast(kind, strict=False).is_not_null()


def _too_large(rows: pl.DataFrame) -> TotalTooLargeError:
    """Build the error from the rows of one key; their last column is that of the total."""
    *_, values = rows
    total, kind = sum(values.drop_nulls().to_physical().to_list()), values.dtype
    key = rows.drop(values.name).row(0, named=True)
    if isinstance(kind, pl.Decimal):
        return TotalTooLargeError(values.name, key, f"{total / 10**kind.scale:.6g}", "a decimal of 38 digits")
    return TotalTooLargeError(values.name, key, total)
