"""Sums of whole numbers and decimals that are exact, or refused: arithmetic on their columns wraps without an error.

The sums of a batch are bounded by its largest value times its number of rows. While that is small, as it nearly always is,
sums are made in the column's own type; else in integers of any size. A batch with a total that its column does not hold
is refused as a whole, with column and key.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.privacy import MASK, MaskableError

Numbers = NDArray[Any]
"""An array of int64, or of Python's integers where sums may not fit."""

_LARGEST = 2**63 - 1
_SURELY_FITS = 2**60
"""A bound on sums: a few of them, and their differences, fit together."""

_HALF = 2**64


class TotalTooLargeError(MaskableError, ArithmeticError):
    """A column does not hold a total.

    Args:
        column: the total's name.
        key: of the total, by column.
        total: what it comes to.
        kind: what the column holds, for people.
    """

    def __init__(self, column: str, key: Mapping[str, Any], total: Any, kind: str = "a 64-bit integer") -> None:
        self._column, self._key, self._kind = column, key, kind
        super().__init__(self._told(key, f"comes to {total}, which {kind} does not hold"))

    def masked(self, private: Collection[str]) -> str:
        """The message without the total, which may be made of any column, and with the key's public values."""
        shown = {name: MASK if name in private else value for name, value in self._key.items()}
        return self._told(shown, f"comes to more than {self._kind} holds")

    def _told(self, key: Mapping[str, Any], comes_to: str) -> str:
        named = ", ".join(f"{name}={value}" for name, value in key.items())
        return (
            f"the total of {self._column} for {named} {comes_to}; correct the values where they come from, replace the event "
            "table by those (`keyfold ingest STREAM --rebuild`), and start a new generation with --full-refresh"
        )


def may_overflow(frame: pl.DataFrame, columns: Sequence[str]) -> bool:
    """Whether a sum over some rows of a column (int64, or decimals of 38 digits) might not fit; if not, none overflows.

    Example:
        >>> may_overflow(pl.DataFrame({"quantity": [2**62, -5]}), ["quantity"])
        True
    """
    # By series: a query costs more than this does of the few rows that most calls have.
    return any(_bound_of(frame[name]) >= _surely_fits(frame[name].dtype) for name in columns)


def check_sums(frame: pl.DataFrame, by: Sequence[str], columns: Sequence[str]) -> None:
    """See that the sums of columns (int64, or decimals of 38 digits) by key fit, in whatever order they are made.

    Raises:
        TotalTooLargeError: one does not; names column, key and total.
    """
    for name in columns:
        if may_overflow(frame, [name]):
            _check(frame, by, name)


def widened(*arrays: Numbers) -> tuple[Numbers, ...]:
    """Arrays of which sums and differences do not wrap: as they are while these fit, else of Python's integers.

    Example:
        >>> sum(*widened(np.array([2**62, 2**62]))) == 2**63
        True
    """
    if sum(_bound(array) for array in arrays) < _SURELY_FITS:
        return arrays
    return tuple(array.astype(object) for array in arrays)


def narrowed(totals: Numbers, column: str, keys: pl.Series, rows: NDArray[np.intp] | None = None) -> NDArray[np.int64]:
    """Totals that were made of `widened` arrays, as int64.

    Args:
        totals: one or more of a key.
        column: what they are of, for people.
        keys: their keys, named by column.
        rows: of each total the row of `keys`; None: its own.

    Raises:
        TotalTooLargeError: one does not fit; names column, key and total.
    """
    if totals.dtype != object:
        return totals
    fits = (totals <= _LARGEST) & (totals >= -_LARGEST - 1)
    if not fits.all():
        first = int(np.argmin(fits))
        raise TotalTooLargeError(column, {keys.name: keys[first if rows is None else int(rows[first])]}, totals[first])
    return totals.astype(np.int64)


def _bound(array: Numbers) -> int:
    """What no sum of some of them is beyond, as Python's own number, which does not wrap itself."""
    return max(-int(array.min()), int(array.max())) * array.size if array.size else 0


def _bound_of(column: pl.Series) -> Any:
    """The same of a column; a decimal where it is one."""
    values: Any = column.drop_nulls() if column.null_count() else column
    return max(-values.min(), values.max()) * len(values) if len(values) else 0


def _surely_fits(kind: pl.DataType) -> Any:
    return 10 ** (37 - kind.scale) if isinstance(kind, pl.Decimal) else _SURELY_FITS


def _check(frame: pl.DataFrame, by: Sequence[str], name: str) -> None:
    """See that sums fit, in 128 bits by halves: no sum of either overflows."""
    kind = frame.schema[name]
    scale = kind.scale if isinstance(kind, pl.Decimal) else 0
    limit = 10**38 - 1 if isinstance(kind, pl.Decimal) else _LARGEST
    value = pl.col(name).to_physical().cast(pl.Int128)
    halves = (value // _HALF).alias("#high"), (value % _HALF).alias("#low")
    sums = frame.select(*by, *halves).group_by(by, maintain_order=True).agg(pl.col("#high", "#low").sum())
    # Floats round by far less than that: the totals near the limit are looked at, as integers.
    near = pl.col("#high").cast(pl.Float64) * _HALF + pl.col("#low").cast(pl.Float64)
    for row in sums.filter(near.abs() > 0.9 * limit).iter_rows(named=True):
        total = row["#high"] * _HALF + row["#low"]
        if not -limit - (not scale) <= total <= limit:
            shown, held = (
                (total, "a 64-bit integer") if not scale else (f"{total / 10**scale:.6g}", "a decimal of 38 digits")
            )
            raise TotalTooLargeError(name, {column: row[column] for column in by}, shown, held)
