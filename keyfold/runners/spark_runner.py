"""Execute functions over record batches as plain Spark jobs: `mapInArrow`, `repartition`, `mapInArrow`."""

import gc
from collections.abc import Iterable, Iterator
from functools import cache

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.runners.runner import PARTITION, OnBatches


class SparkRunner:
    """Executes functions in the tasks of a Spark session."""

    def __init__(self, session: SparkSession) -> None:
        # A session of its own, so that its settings are not those of the caller's session.
        self._session = session.newSession()
        # Rows are few and large blobs: an Arrow batch of them must stay below the 2 GiB that a binary array can hold.
        self._session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(256 << 20))

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at the same time."""
        return self._session.sparkContext.defaultParallelism

    def exchange(
        self, read: OnBatches, numbers: range, shuffled: pa.Schema, partitions: int, work: OnBatches, made: pa.Schema
    ) -> pa.Table:
        """As `Runner.exchange`."""
        rows = self._session.range(numbers.start, numbers.stop, 1, self.parallelism)
        # With a number of partitions, so that Spark does not coalesce them.
        rows = rows.mapInArrow(_in_worker(read), from_arrow_schema(shuffled)).repartition(partitions, PARTITION)
        return rows.mapInArrow(_in_worker(work), from_arrow_schema(made)).toArrow()


def _in_worker(function: OnBatches) -> OnBatches:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)
        _freeze_loaded_modules()

    return run


@cache
def _freeze_loaded_modules() -> None:
    """Exclude the modules that are loaded now from garbage collection, once per process.

    Spark's workers collect garbage after each task. With Polars, pyarrow and pydantic loaded that takes 40 ms.
    """
    # Without a task this is the driver's process (tests call workers' functions there), which is not ours to freeze.
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
