"""Rows of parts in memory, their marks, and the sizes of parts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import SLOT, Slots, positions_of

MARK = "#mark"
"""Column with a row's effect on rows of its slot in older parts."""

REPLACES, ADDS, GONE = 0, 1, 2
"""The row replaces them; the row is added to them; the slot has no rows any more."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of parts, which do not change any result.

    Attributes:
        rows_a_group: rows of a Parquet row group, the smallest unit of reading.
        rows_a_segment: approximate rows of a file of the base.
        inline_bytes: largest part that is stored in the manifest.
        small_bytes: largest state that is rewritten in each batch.
    """

    rows_a_group: int = 2_048
    rows_a_segment: int = 262_144
    inline_bytes: int = 64 << 10
    small_bytes: int = 256 << 10


SIZES = Sizes()


class Rows:
    """Rows that are not written yet, with the interface of a part.

    Attributes:
        frame: the rows, sorted by `SLOT`, with `MARK`.
        starts: first slots of its groups of rows.
    """

    def __init__(self, frame: pl.DataFrame, sizes: Sizes = SIZES) -> None:
        self.frame = frame
        self._slots = frame[SLOT].to_numpy()
        self.starts: Slots = self._slots[:: sizes.rows_a_group]

    def between(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As `ParquetPart.between`."""
        first, last = np.searchsorted(self._slots, np.array([begin, end], np.uint64))
        rows = self.frame.slice(int(first), int(last - first))
        return rows if columns is None else rows.select(columns)

    def of(self, slots: Slots, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """As `ParquetPart.of`."""
        rows = self.frame if columns is None else self.frame.select(columns)
        return rows_at(rows, positions_of(self._slots, slots))


def rows_at(rows: pl.DataFrame, positions: np.ndarray) -> pl.DataFrame:
    """Return the rows at sorted positions."""
    # A contiguous range is a slice, which copies nothing.
    if not positions.size or positions[-1] - positions[0] + 1 == positions.size:
        return rows.slice(int(positions[0]) if positions.size else 0, positions.size)
    return rows[positions]
