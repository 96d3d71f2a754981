"""Conservation: every event a job has read is in an output, in open state, or late; counted anew from the tables."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.errors import KeyfoldError
from spark_jobs.keyed import progress
from spark_jobs.keyed.codec import decode
from spark_jobs.keyed.contract import KeyedJob, OutputTable
from spark_jobs.keyed.generations import Generation, live_generation
from spark_jobs.keyed.operator import STATE_VARIABLE
from spark_jobs.lakehouse import Lakehouse


@dataclass(frozen=True)
class Conservation:
    """Where the events of a generation are; all numbers are events.

    Attributes:
        events_read: rows of the event table up to where the job has read.
        in_outputs: that the rows of the job's tables stand for.
        open_events: that the state store holds.
        late: in the late table.
    """

    events_read: int
    in_outputs: int
    open_events: int
    late: int

    @property
    def balanced(self) -> bool:
        return self.events_read == self.in_outputs + self.open_events + self.late


def check_conservation(spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob) -> Conservation:
    """Count a job's events where they came from and where they went; reads tables and state store, no run records.

    Raises:
        KeyfoldError: the job has not run, or its last run broke off in the middle of an event table's version.
    """
    generation = live_generation(lakehouse, job.name)
    if generation is None or progress.watermark(generation) is None:
        return Conservation(0, 0, 0, 0)
    version, partly = progress.next_version(generation)
    if partly or progress.has_unfinished_batch(generation):
        raise KeyfoldError(f"job {job.name}: its last run was cut off; run it again before counting its events")
    read = 0 if version == 0 else DeltaTable(str(lakehouse.events(job.stream)), version=version - 1).count()
    *outputs, late = [_events_in(spark, generation, table) for table in job.tables]
    return Conservation(
        events_read=read,
        in_outputs=sum(outputs),
        open_events=_open_events(spark, generation, job),
        late=late,
    )


def _events_in(spark: SparkSession, generation: Generation, table: OutputTable) -> int:
    """How many events a table's rows stand for."""
    path = str(generation.table(table.name))
    if table.events.meta.eq(pl.lit(0)):
        return 0
    if table.events.meta.eq(pl.len()):
        return DeltaTable(path).count()
    return _sum(spark.read.format("delta").load(path), _counting(table.events, frames=_frames))


def _open_events(spark: SparkSession, generation: Generation, job: KeyedJob) -> int:
    reader = spark.read.format("statestore").option("stateVarName", STATE_VARIABLE)
    with _readable_path(generation.checkpoint) as checkpoint:
        state = reader.load(str(checkpoint)).select(F.col("value.payload").alias("payload"))
        return _sum(state, _counting(job.state_events, frames=_states))


@contextmanager
def _readable_path(checkpoint: Path) -> Iterator[Path]:
    """The checkpoint under a path that Spark's state reader finds: it takes escaped characters, such as %20, for names."""
    if quote(str(checkpoint)) == str(checkpoint):
        yield checkpoint
        return
    with TemporaryDirectory(prefix="keyfold-") as folder:
        link = Path(folder) / "checkpoint"
        link.symlink_to(checkpoint)
        yield link


def _frames(batch: pa.RecordBatch) -> Iterator[pl.DataFrame]:
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - narrows from_arrow's union
    yield frame


def _states(batch: pa.RecordBatch) -> Iterator[pl.DataFrame]:
    for payload in batch.column("payload"):
        yield decode(payload.as_buffer())


def _counting(
    events: pl.Expr, frames: Callable[[pa.RecordBatch], Iterator[pl.DataFrame]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum(int(frame.select(events).item() or 0) for batch in batches for frame in frames(batch))
        yield pa.RecordBatch.from_arrays([pa.array([total], pa.int64())], names=["events"])

    return count


def _sum(rows: DataFrame, count: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> int:
    first = rows.mapInArrow(count, "events long").agg(F.sum("events")).first()
    return int(first[0] or 0) if first else 0
