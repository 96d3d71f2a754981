"""Hold the rows that a suite validates: as a Spark frame, and, where they are few, as an Arrow table.

A Spark job takes tens of milliseconds however little it reads. Whoever can read a few rows without one gives the table too.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import AtomicType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 100_000
"""Number of rows below which they are validated as a table."""

_BYTES_IN_A_PLAN = 2 * 1024 * 1024

_FAST_PLANS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""For a few rows: to compile Java for a query takes longer than to interpret it. The results are the same."""


@dataclass(frozen=True)
class Rows:
    """Rows to validate.

    Attributes:
        spark: the session that evaluates what needs Spark.
        schema: their columns.
        frame: returns them as a batch frame; called only if an expectation needs it.
        table: all of them, where they are fewer than `FEW` and could be read without Spark.
    """

    spark: SparkSession
    schema: StructType
    frame: Callable[[], DataFrame]
    table: "pa.Table | None" = None

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """The rows of a frame."""
        return cls(frame.sparkSession, frame.schema, lambda: frame)

    @contextmanager
    def collected(self, fewer_than: int) -> Iterator[tuple[Self, int]]:
        """Give the rows with their number: as a table if they are fewer than that, else as a cached frame."""
        if self.table is not None and self.table.num_rows < fewer_than:
            yield self, self.table.num_rows
            return
        with _cached(self.frame()) as frame:
            rows = frame.count()
            table = frame.toArrow() if rows < fewer_than else None
            yield replace(self, frame=lambda: frame, table=table), rows

    @contextmanager
    def on_spark(self, *, once: bool) -> Iterator[DataFrame]:
        """Give a frame that is read once, or many times. Few rows lie in the plan, where Spark filters them without a job."""
        is_plain = all(isinstance(one.dataType, AtomicType) for one in self.schema.fields)
        if self.table is not None and is_plain and self.table.nbytes <= _BYTES_IN_A_PLAN:
            # Any column may have NULL: of one that may not, Spark would not look for any.
            schema = StructType([StructField(one.name, one.dataType) for one in self.schema.fields])
            # Great Expectations, which reads a frame many times, makes its views in the default session.
            spark = _session_for_few(self.spark) if once else self.spark
            # In one partition, which Spark need not exchange to group or to sort.
            yield spark.createDataFrame(self.table, schema).coalesce(1)
        elif once:
            # Of files, only the columns that are used are read.
            yield self.frame()
        else:
            with _cached(self.frame()) as frame:
                yield frame


@lru_cache(maxsize=1)
def _session_for_few(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    for name, value in _FAST_PLANS.items():
        session.conf.set(name, value)
    return session


@contextmanager
def _cached(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache a frame, unless it is cached already: Great Expectations runs several jobs per expectation."""
    if frame.storageLevel.useMemory or frame.storageLevel.useDisk:
        yield frame
        return
    frame = frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()
