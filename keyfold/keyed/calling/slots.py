"""Slots: the order in which a job's keys lie in its state, and the state partition that holds each.

A slot is 63 bits of a key's hash: its key group in the upper 15, a part of the hash below. Rows of state are sorted by it.
Two keys may share a slot; they are then read and written together, and nothing is confused, since steps go by the key.
"""

from functools import cache

import numpy as np
import polars as pl

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.rows.hashing import key_hash

SLOT = "#slot"
"""The column of slots beside the columns of state, under a name that no job's column has."""

Slots = np.ndarray
"""Slots (UInt64), sorted, each once unless said otherwise."""

NO_SLOTS: Slots = np.empty(0, np.uint64)

_BITS_OF_HASH = 48


def slot_expression(key: tuple[str, ...], key_groups: int) -> pl.Expr:
    """The slot of each row; the key's columns must have the types that they have in events, whose text the hash is of."""
    hashed = key_hash(key)
    return (hashed % key_groups) * (1 << _BITS_OF_HASH) + hashed // (1 << (64 - _BITS_OF_HASH))


def slots_of(job: KeyedJob, rows: pl.DataFrame) -> Slots:
    """The slots of rows of events or of state, in the rows' order."""
    kinds = polars_schema(job.events)
    keys = rows.select(pl.col(name).cast(kinds[name]) for name in job.key)
    return keys.select(slot_expression(job.key, job.key_groups)).to_series().to_numpy()


def key_groups_of(slots: Slots) -> np.ndarray:
    """The key group of each slot."""
    return slots >> np.uint64(_BITS_OF_HASH)


def are_among(slots: np.ndarray, wanted: Slots) -> np.ndarray:
    """Which of some slots, in any order, are among sorted ones: an array of truth values."""
    if not wanted.size:
        return np.zeros(len(slots), bool)
    position = np.searchsorted(wanted, slots)
    position[position == wanted.size] = 0
    return wanted[position] == slots


def distinct(slots: np.ndarray) -> Slots:
    """Sorted slots of which some may repeat, each once."""
    # NumPy's own `unique` hashes, which takes ten times as long on what is sorted.
    if not slots.size:
        return slots
    return slots[np.concatenate([[True], slots[1:] != slots[:-1]])]


def union(slots: Slots, others: Slots) -> Slots:
    """The slots that are in either."""
    if not slots.size or not others.size:
        return slots if slots.size else others
    return distinct(np.sort(np.concatenate([slots, others]), kind="stable"))


def positions_of(slots: Slots, wanted: Slots) -> np.ndarray:
    """Where in sorted slots, of which some may repeat, those stand that are wanted; in order."""
    first, last = np.searchsorted(slots, wanted, side="left"), np.searchsorted(slots, wanted, side="right")
    counts = last - first
    return np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def partitions_of(slots: Slots, partitions: int) -> list[int]:
    """The labels of the state partitions that hold some slots."""
    return [partition_labels(partitions)[one] for one in np.unique(key_groups_of(slots) % np.uint64(partitions))]


@cache
def partition_labels(partitions: int) -> tuple[int, ...]:
    """The number by which rows are grouped so that Spark's shuffle puts each state partition into a task of its own.

    Spark chooses a task by its hash of the number that rows are grouped by. These are the least numbers that fall into task
    0, 1 and so on. Results do not depend on it: two partitions in one task are worked on one after the other.
    """
    labels: dict[int, int] = {}
    begin = 0
    while len(labels) < partitions:
        numbers = np.arange(begin, begin + 8 * partitions)
        for number, task in zip(numbers, spark_hash(numbers).astype(np.int64) % partitions, strict=True):
            labels.setdefault(int(task), int(number))
        begin += 8 * partitions
    return tuple(labels[task] for task in range(partitions))


def spark_hash(numbers: np.ndarray) -> np.ndarray:
    """Spark's hash of 32-bit integers (Murmur3, seed 42), by which a shuffle chooses the task of a row."""
    first, second = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
    with np.errstate(over="ignore"):
        mixed = _rotated(numbers.astype(np.uint32) * first, 15) * second
        mixed = _rotated(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        mixed ^= np.uint32(4)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return (mixed ^ (mixed >> np.uint32(16))).view(np.int32)


def _rotated(numbers: np.ndarray, by: int) -> np.ndarray:
    return (numbers << np.uint32(by)) | (numbers >> np.uint32(32 - by))
