"""The contract of runners: they execute functions over Arrow record batches, and know nothing of jobs and state."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import pyarrow as pa

OnBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function that a task applies to its record batches."""

PARTITION = "partition"
"""The column by which a runner shuffles rows: a 32-bit label of a state partition."""


class Runner(Protocol):
    """Executes functions over record batches.

    Attributes:
        parallelism: number of tasks that run at the same time.
    """

    @property
    def parallelism(self) -> int: ...

    def exchange(
        self, read: OnBatches, numbers: range, shuffled: pa.Schema, partitions: int, work: OnBatches, made: pa.Schema
    ) -> pa.Table:
        """Read in tasks, shuffle the rows by `PARTITION`, and work on all rows of a label in one task.

        Args:
            read: takes batches with a column of the task's share of `numbers`, and returns rows of `shuffled`.
            numbers: numbers of the splits to read.
            shuffled: columns of the rows to shuffle, with `PARTITION`.
            partitions: number of tasks after the shuffle.
            work: takes all rows of the labels of a task, in any order, and returns rows of `made`, which must be few.
            made: columns of the result.

        Raises:
            Exception: a task failed; the text of the error quotes the task's error.
        """
        ...
