"""Read lines together with a fast reader, and find the few that it refuses.

A fast reader reads many lines at once and stops at the first one that it does not take, without saying which. So lines that fail
together are cut into parts until few are left, which the caller reads one by one. No line's answer depends on those beside it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_PARTS = 16
"""Parts that lines are cut into, if they cannot be read together."""
FEW = 32
"""Lines that are read one by one, if they cannot be read together."""

Positions = npt.NDArray[np.int64]


class Divided(NamedTuple):
    """Lines that were read together, and those that were not.

    Attributes:
        table: the rows of those that were; None without any.
        taken: their positions.
        left: the positions of the others.
    """

    table: pa.Table | None
    taken: Positions
    left: Positions


def divide(count: int, read: Callable[[int, int], pa.Table | None]) -> Divided:
    """Read lines with as few calls of a reader as its refusals allow.

    Args:
        count: number of lines.
        read: returns one row for each line from a first to before a last one; None if it refuses one of them.

    Example:
        >>> digits = ["1", "2", "x", "4"]
        >>> divide(3, lambda start, stop: pa.table({"digit": digits[start:stop]})).taken
        array([0, 1, 2])
    """
    tables: list[pa.Table] = []
    taken: list[Positions] = []
    left: list[Positions] = []

    def visit(start: int, stop: int) -> None:
        table = read(start, stop)
        if table is not None:
            tables.append(table)
            taken.append(np.arange(start, stop))
        elif stop - start > FEW:
            step = max(FEW, -(-(stop - start) // _PARTS))
            for first in range(start, stop, step):
                visit(first, min(first + step, stop))
        else:
            left.append(np.arange(start, stop))

    if count:
        visit(0, count)
    return Divided(pa.concat_tables(tables) if tables else None, _joined(taken), _joined(left))


def _joined(positions: list[Positions]) -> Positions:
    return np.concatenate([np.empty(0, np.int64), *positions])
