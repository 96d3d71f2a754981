"""Execute functions over record batches in this process, without Java: what a small delivery runs on."""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pyarrow as pa

from keyfold.runners.runner import PARTITION, Item, OnBatches, Result
from keyfold.storage.place import Place


class LocalRunner:
    """Executes functions in this process. Tasks are threads: most of their time is spent outside of Python."""

    parallelism = min(max(2, os.cpu_count() or 2), 8)
    """Number of tasks; more than one, so that a function that relies on being called once fails here as on Spark. Each takes memory, so
    that there are few on a large machine: what these cannot do in time is for Spark."""

    in_one_process = True

    @property
    def cores_per_worker(self) -> int:
        """As `Runner.cores_per_worker`: all tasks are in one process."""
        return self.parallelism

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """As `Runner.map`."""
        if len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self.parallelism) as pool:
            return list(pool.map(function, items))

    def exchange(
        self, read: OnBatches, numbers: range, shuffled: pa.Schema, partitions: int, work: OnBatches, output: pa.Schema
    ) -> pa.Table:
        """As `Runner.exchange`."""
        rows: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        shares = [numbers[task :: self.parallelism] for task in range(self.parallelism)]
        # By Polars: for `pa.array`, pyarrow imports pandas if it is there, which takes 0.4 s.
        asked = [pa.RecordBatch.from_arrays([pl.Series(share, dtype=pl.Int64).to_arrow()], ["id"]) for share in shares]
        with ThreadPoolExecutor(self.parallelism) as pool:
            for batches in pool.map(lambda batch: list(read(iter([batch]))), asked):
                # A slice copies nothing.
                for batch in batches:
                    for row, label in enumerate(batch.column(PARTITION).to_pylist()):
                        rows[label].append(batch.slice(row, 1))
            labels = sorted(rows)
            mine = [labels[task :: self.parallelism] for task in range(self.parallelism)]
            worked = pool.map(lambda share: list(work(batch for label in share for batch in rows.pop(label))), mine)
            return pa.Table.from_batches([batch for results in worked for batch in results], output)

    def check_shared(self, folder: Place, *, writable: bool = True) -> None:
        """Do nothing: tasks run in this process."""

    def check_alive(self) -> None:
        """Do nothing: this process runs."""
