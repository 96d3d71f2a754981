"""Sum whole numbers and decimals exactly, or refuse the batch. Polars and NumPy overflow without an error.

Sums of a batch are bounded by its largest value times its number of rows. If the bound is small, as it nearly always is, sums
are computed in the column's own type, and otherwise in Python's integers. If a total does not fit into its column, the batch
fails, with column and key.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.privacy import MASK, MaskableError

Numbers = NDArray[Any]
"""An array of int64, or of Python's integers if sums may not fit."""

_LARGEST = 2**63 - 1
_SURELY_FITS = 2**60
"""Bound on sums: sums and differences of a few such numbers still fit into int64."""

_HALF = 2**64


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


def may_overflow(frame: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Whether a sum over any rows of a column (int64, or decimals of 38 digits) might overflow.

    Example:
        >>> may_overflow(pl.DataFrame({"quantity": [2**62, -5]}), ["quantity"])
        True
    """
    # By series, and not by a query, which would cost more for the few rows of most calls.
    return any(_bound_of(frame[name]) >= _surely_fits(frame[name].dtype) for name in columns)


def check_sums(frame: pl.DataFrame, by: Sequence[str], columns: Sequence[str]) -> None:
    """Check that sums of columns (int64, or decimals of 38 digits) by key fit.

    Raises:
        TotalTooLargeError: a sum does not fit; names column, key and total.
    """
    for name in columns:
        if may_overflow(frame, [name]):
            _check(frame, by, name)


def widened(*arrays: Numbers) -> tuple[Numbers, ...]:
    """Return arrays whose sums and differences do not overflow: unchanged if they fit, or else of Python's integers.

    Example:
        >>> sum(*widened(np.array([2**62, 2**62]))) == 2**63
        True
    """
    if sum(_bound(array) for array in arrays) < _SURELY_FITS:
        return arrays
    return tuple(array.astype(object) for array in arrays)


def narrowed(totals: Numbers, column: str, keys: pl.Series, rows: NDArray[np.intp] | None = None) -> NDArray[np.int64]:
    """Convert totals of `widened` arrays to int64.

    Args:
        totals: the totals, one or more for each key.
        column: name of the totals, for the error.
        keys: the keys; the name of the series is that of the key column.
        rows: for each total its row in `keys`; None if they have the same order.

    Raises:
        TotalTooLargeError: a total does not fit; names column, key and total.
    """
    if totals.dtype != object:
        return totals
    fits = (totals <= _LARGEST) & (totals >= -_LARGEST - 1)
    if not fits.all():
        first = int(np.argmin(fits))
        raise TotalTooLargeError(column, {keys.name: keys[first if rows is None else int(rows[first])]}, totals[first])
    return totals.astype(np.int64)


def _bound(array: Numbers) -> int:
    """Return a bound on the absolute value of any sum, as Python's integer, which does not overflow."""
    return max(-int(array.min()), int(array.max())) * array.size if array.size else 0


def _bound_of(column: pl.Series) -> Any:
    """Return the same bound for a column; a decimal for a column of decimals."""
    values: Any = column.drop_nulls() if column.null_count() else column
    return max(-values.min(), values.max()) * len(values) if len(values) else 0


def _surely_fits(kind: pl.DataType) -> Any:
    return 10 ** (37 - kind.scale) if isinstance(kind, pl.Decimal) else _SURELY_FITS


def _check(frame: pl.DataFrame, by: Sequence[str], name: str) -> None:
    """Check exact sums of a column. High and low halves of the values are summed in 128 bits, so that neither overflows."""
    kind = frame.schema[name]
    # An int64 has one more negative number than positive ones, and a decimal as many of both.
    least, limit = (1 - 10**38, 10**38 - 1) if isinstance(kind, pl.Decimal) else (-_LARGEST - 1, _LARGEST)
    value = pl.col(name).to_physical().cast(pl.Int128)
    halves = (value // _HALF).alias("#high"), (value % _HALF).alias("#low")
    sums = frame.select(*by, *halves).group_by(by, maintain_order=True).agg(pl.col("#high", "#low").sum())
    # The float estimate is off by far less than a tenth: only totals near the limit are checked as integers.
    near = pl.col("#high").cast(pl.Float64) * _HALF + pl.col("#low").cast(pl.Float64)
    for row in sums.filter(near.abs() > 0.9 * limit).iter_rows(named=True):
        total = row["#high"] * _HALF + row["#low"]
        if not least <= total <= limit:
            shown, held = total, "a 64-bit integer"
            if isinstance(kind, pl.Decimal):
                shown, held = f"{total / 10**kind.scale:.6g}", "a decimal of 38 digits"
            raise TotalTooLargeError(name, {column: row[column] for column in by}, shown, held)
