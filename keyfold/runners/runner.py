"""The contract of runners: they execute functions over Arrow record batches, and know nothing of jobs and state."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from keyfold.storage.place import Place

Item = TypeVar("Item")
Result = TypeVar("Result")

OnBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function that a task applies to its record batches."""

PARTITION = "partition"
"""The column by which a runner shuffles rows: a 32-bit label of a state partition."""


class Runner(Protocol):
    """Executes functions in tasks: on Spark, or in this process. Both give the same results.

    Attributes:
        parallelism: number of tasks that run at the same time.
        in_one_process: whether tasks share the memory of this process.
        cores_per_worker: number of cores that a task can use if no other runs beside it, by threads of its own.
    """

    @property
    def parallelism(self) -> int: ...

    @property
    def in_one_process(self) -> bool: ...

    @property
    def cores_per_worker(self) -> int: ...

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Apply a function to each item, in tasks, and return the results in the order of the items.

        Args:
            function: what a task does with an item; its results must be small, as all are collected.
            items: the items; those that belong to one task are one item.

        Raises:
            Exception: a task failed; the text of the error quotes the task's error.
        """
        ...

    def exchange(
        self, read: OnBatches, numbers: range, shuffled: pa.Schema, partitions: int, work: OnBatches, output: pa.Schema
    ) -> pa.Table:
        """Read in tasks, shuffle the rows by `PARTITION`, and work on all rows of a label in one task.

        Args:
            read: takes batches with a column of the task's share of `numbers`, and returns rows of `shuffled`.
            numbers: numbers of the splits to read.
            shuffled: columns of the rows to shuffle, with `PARTITION`.
            partitions: number of tasks after the shuffle.
            work: takes all rows of the labels of a task, in any order, and returns rows of `output`, which must be few.
            output: columns of the result.

        Raises:
            Exception: a task failed; the text of the error quotes the task's error.
        """
        ...

    def check_shared(self, folder: Place, *, writable: bool = True) -> None:
        """Check that tasks see a folder of this process at the same path.

        Args:
            folder: the folder that this process and the tasks read.
            writable: whether both must write to it too.

        Raises:
            KeyfoldError: a node does not see this process's files, may not write, or writes files that this process does not see.
        """
        ...

    def check_alive(self) -> None:
        """Check that the runner can still work. For code that waits for long without giving it work.

        Raises:
            KeyfoldError: Spark's Java process has ended.
        """
        ...
