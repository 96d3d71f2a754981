"""How unevenly Spark's hash puts key groups into partitions: the fullest partition is what a batch waits for."""

import numpy as np


def spark_hash(numbers: np.ndarray) -> np.ndarray:
    """Spark's hash of 32-bit integers (Murmur3, seed 42), by which a shuffle's partition is chosen."""
    first, second = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
    with np.errstate(over="ignore"):
        mixed = _rotated(numbers.astype(np.uint32) * first, 15) * second
        mixed = _rotated(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        mixed ^= np.uint32(4)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return (mixed ^ (mixed >> np.uint32(16))).view(np.int32)


def fullest_partition(key_groups: int, partitions: int) -> float:
    """How many times as many key groups as the mean the fullest partition has."""
    counts = np.bincount(spark_hash(np.arange(key_groups)).astype(np.int64) % partitions, minlength=partitions)
    return float(counts.max() * partitions / key_groups)


def _rotated(numbers: np.ndarray, by: int) -> np.ndarray:
    return (numbers << np.uint32(by)) | (numbers >> np.uint32(32 - by))
