"""Leaves: data files of an upsert table that each hold one range of key hashes, so that few changed keys touch few files.

A leaf is named by the leading bits that its keys' hashes share. Leaves of a table do not overlap. A changed row moves from
its leaf to a recent file, which holds any keys. When recent files have grown, the whole table is rewritten as leaves of
about equal size: ranges are split as the table grows, and merged as it shrinks.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

HashOf = Callable[[tuple[str, ...]], pl.Expr]
"""Returns the 64-bit hash of key columns. It must never change, since file names depend on it."""

HASH = "keyfold key hash"
"""The column of key hashes in frames. It is not a column of any table."""

_BITS = 64
_LARGEST = 512 << 10
_MOST = 4096
"""Maximum bytes of a leaf, unless the table would need more than `_MOST` leaves, each of which its log names. Smaller leaves
would write fewer bytes but cost more: creating a file takes as long as writing half a megabyte."""


def span_of(leaf: str) -> tuple[int, int]:
    """Return the first and the last hash of a leaf's range.

    Example:
        >>> [hex(end) for end in span_of("0110")]
        ['0x6000000000000000', '0x6fffffffffffffff']
    """
    first = int(leaf.ljust(_BITS, "0") or "0", 2)
    return first, first | ((1 << (_BITS - len(leaf))) - 1)


def depth_of(total: int, largest: int) -> int:
    """Return how many times `total` bytes must be halved until no part exceeds `largest`."""
    # The number of bits that distinguish as many parts as are needed.
    return ((max(total, 1) - 1) // largest).bit_length()


def leaf_bytes(total: int) -> int:
    """Maximum bytes of a leaf in a table of `total` bytes."""
    return max(_LARGEST, -(-total // _MOST))


def leaves_of(total: int) -> int:
    """Return the number of leaves of a table of `total` bytes."""
    return 1 << depth_of(total, leaf_bytes(total))


def ranges_of(depth: int) -> list[str]:
    """Return all leaves with `depth` bits, in the order of their hashes."""
    return [format(at, f"0{depth}b") if depth else "" for at in range(1 << depth)]


def overlaps(one: str, other: str) -> bool:
    """Whether two leaves have hashes in common: one contains the other."""
    return one.startswith(other) or other.startswith(one)


def is_within(leaf: str) -> pl.Expr:
    """Return the condition for rows of a frame with `HASH` that belong to a leaf."""
    first, last = span_of(leaf)
    return pl.col(HASH).is_between(pl.lit(first, pl.UInt64), pl.lit(last, pl.UInt64))


def met_by(leaves: Sequence[str], hashes: npt.NDArray[np.uint64]) -> Iterator[tuple[str, slice]]:
    """Yield the leaves that hold some of the sorted hashes, each with the slice of its hashes."""
    spans = np.array([span_of(leaf) for leaf in leaves], np.uint64).reshape(-1, 2)
    begins = np.searchsorted(hashes, spans[:, 0], "left")
    ends = np.searchsorted(hashes, spans[:, 1], "right")
    for leaf, begin, end in zip(leaves, begins.tolist(), ends.tolist(), strict=True):
        if begin < end:
            yield leaf, slice(begin, end)


def divided(rows: pl.DataFrame, leaf: str, deeper: int) -> Iterator[tuple[str, pl.DataFrame]]:
    """Split the rows of a leaf, which have `HASH`, into leaves with `deeper` more bits; empty ones are left out."""
    ordered = rows.sort(HASH)
    parts = [leaf + bits for bits in ranges_of(deeper)]
    for part, where in met_by(parts, ordered[HASH].to_numpy()):
        yield part, ordered[where].drop(HASH)
