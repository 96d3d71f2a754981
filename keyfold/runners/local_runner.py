"""Execute functions over record batches in this process."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import pyarrow as pa

from keyfold.runners.runner import PARTITION, Item, OnBatches, Result
from keyfold.storage.place import Place


class LocalRunner:
    """Executes functions in this process, one task after the other: Polars uses all cores in each."""

    parallelism = 2
    """Number of tasks; more than one, so that a function that relies on being called once fails here as on Spark."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """As `Runner.map`."""
        return [function(item) for item in items]

    def exchange(
        self, read: OnBatches, numbers: range, shuffled: pa.Schema, partitions: int, work: OnBatches, made: pa.Schema
    ) -> pa.Table:
        """As `Runner.exchange`."""
        rows: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        for task in range(self.parallelism):
            share = pa.record_batch([pa.array(numbers[task :: self.parallelism], pa.int64())], names=["id"])
            for batch in read(iter([share])):
                # A slice copies nothing.
                for row, label in enumerate(batch.column(PARTITION).to_pylist()):
                    rows[label].append(batch.slice(row, 1))
        labels = sorted(rows)
        shares = (labels[task :: self.parallelism] for task in range(self.parallelism))
        results = [made_ for share in shares for made_ in work(one for label in share for one in rows.pop(label))]
        return pa.Table.from_batches(results, made)

    def check_shared(self, folder: Place, *, writable: bool = True) -> None:
        """Do nothing: tasks run in this process."""

    def check_alive(self) -> None:
        """Do nothing: this process runs."""
