"""Leaves: files of an upsert table that each hold the keys of one range of hashes, so that few changed keys meet few files.

A leaf is named by the bits with which all its keys' hashes begin, and no two leaves of a table overlap. Rows leave a leaf as
they change, and wait with the new ones in recent files, of any keys. When these have grown, all become leaves anew, of
about one size: so ranges are divided as a table grows, and joined where it has shrunk.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

HashOf = Callable[[tuple[str, ...]], pl.Expr]
"""Gives the hash, 64 bits, of a key's columns; the same for ever, since names of files depend on it."""

HASH = "keyfold key hash"
"""The column of a key's hash, beside a table's own; no table has it."""

_BITS = 64
_LARGEST = 512 << 10
_MOST = 4096
"""A leaf has so many bytes at most, unless the table would have more than so many leaves: a log names each of them. Smaller
leaves would have fewer bytes written, and cost more: to write a file takes as long as half a megabyte of a large one."""


def span_of(leaf: str) -> tuple[int, int]:
    """The first and the last hash of a leaf.

    Example:
        >>> [hex(end) for end in span_of("0110")]
        ['0x6000000000000000', '0x6fffffffffffffff']
    """
    first = int(leaf.ljust(_BITS, "0") or "0", 2)
    return first, first | ((1 << (_BITS - len(leaf))) - 1)


def depth_of(total: int, largest: int) -> int:
    """How often the bytes of a table must be halved until no part is larger."""
    return ((max(total, 1) - 1) // largest).bit_length()


def leaf_bytes(total: int) -> int:
    """The size of the leaves of a table of so many bytes, at most."""
    return max(_LARGEST, -(-total // _MOST))


def leaves_of(total: int) -> int:
    """How many leaves a table of so many bytes has."""
    return 1 << depth_of(total, leaf_bytes(total))


def ranges_of(depth: int) -> list[str]:
    """All leaves of a depth, in order of their hashes."""
    return [format(at, f"0{depth}b") if depth else "" for at in range(1 << depth)]


def overlaps(one: str, other: str) -> bool:
    """Whether two leaves have hashes in common: one of them is part of the other."""
    return one.startswith(other) or other.startswith(one)


def is_within(leaf: str) -> pl.Expr:
    """Which rows of a frame with `HASH` belong to a leaf."""
    first, last = span_of(leaf)
    return pl.col(HASH).is_between(pl.lit(first, pl.UInt64), pl.lit(last, pl.UInt64))


def met_by(leaves: Sequence[str], hashes: npt.NDArray[np.uint64]) -> Iterator[tuple[str, slice]]:
    """The leaves in which keys would lie, each with where its keys are among the hashes, which are in order."""
    spans = np.array([span_of(leaf) for leaf in leaves], np.uint64).reshape(-1, 2)
    begins = np.searchsorted(hashes, spans[:, 0], "left")
    ends = np.searchsorted(hashes, spans[:, 1], "right")
    for leaf, begin, end in zip(leaves, begins.tolist(), ends.tolist(), strict=True):
        if begin < end:
            yield leaf, slice(begin, end)


def divided(rows: pl.DataFrame, leaf: str, deeper: int) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of a leaf, which have `HASH`, as those of the leaves so many bits deeper; those without rows are left out."""
    ordered = rows.sort(HASH)
    parts = [leaf + bits for bits in ranges_of(deeper)]
    for part, where in met_by(parts, ordered[HASH].to_numpy()):
        yield part, ordered[where].drop(HASH)
