"""Replace a Spark session in tests of ingest and runs."""

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from keyfold.runners.local_runner import LocalRunner


class LocalSpark:
    """A stand-in for a Spark session: ingest and runs of jobs work in this process. `local_spark` makes one.

    A generation may run on it and on Spark in turn.
    """

    def __init__(self) -> None:
        self.runner = LocalRunner()
        # Read for the number of shuffle partitions only.
        self.conf = SimpleNamespace(get=lambda _: "2")
        self.sparkContext = _LocalContext()

    def newSession(self) -> Self:
        """Return this object, which has no settings of a session."""
        return self

    def createDataFrame(self, rows: pa.Table) -> "_LocalFrame":
        """Return rows of which tasks work on some each."""
        return _LocalFrame(rows)

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def local_spark() -> SparkSession:
    r"""Return a stand-in for a Spark session, for fast tests of whole runs.

    `keyfold.ingest`, `keyfold.run` and `keyfold.assert_nothing_lost` accept it, for any job. Tables, journals and counts are
    those that Spark would make.

    Example:
        >>> from datetime import UTC, datetime, timedelta
        >>> from tempfile import TemporaryDirectory
        >>> import polars as pl, pyarrow as pa
        >>> import keyfold
        >>> from keyfold.keyed.generation.run_mode import Incremental
        >>> event = pa.schema([
        ...     keyfold.column("user", pa.string(), "Who clicked", nullable=False),
        ...     keyfold.column("at", pa.timestamp("us", "UTC"), "When", nullable=False),
        ... ])
        >>> seen = pa.schema([event.field("user"), ("clicks", pa.int64())])
        >>> clicks = keyfold.Stream("clicks", event, event_time="at")
        >>> def count(key, state, events, clock):
        ...     total = sum(row["clicks"] for row in state) + len(events)
        ...     return keyfold.KeyAnswer(state=[{"clicks": total}])
        >>> step = keyfold.per_key(count, key=("user",), event_time="at", events=event, state=seen, output=seen)
        >>> job = keyfold.KeyedJob(
        ...     "click_counts", clicks, ("user",), "at", timedelta(0), event, seen, seen, step,
        ...     state_events=pl.col("clicks").sum(),
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     lakehouse, spark = keyfold.Lakehouse(folder), local_spark()
        ...     landing = lakehouse.landing("clicks")
        ...     landing.mkdir(parents=True)
        ...     _ = (landing / "1.csv").write_text("user,at\nann,2026-01-31T12:00:00Z\nann,2026-01-31T12:05:00Z\n")
        ...     _ = keyfold.ingest(spark, lakehouse, clicks)
        ...     counts = keyfold.run(spark, lakehouse, job).totals
        >>> counts.events, counts.open_events
        (2, 2)
    """
    return cast("SparkSession", LocalSpark())


class _LocalContext:
    master = "local"
    applicationId = "local"
    defaultParallelism = 2

    def parallelize(self, values: Iterable[Any], count: int = 1) -> "_LocalValues":
        return _LocalValues(list(values))


class _LocalFrame:
    """The part of a DataFrame that readers of state use."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def repartition(self, partitions: int) -> Self:
        return self

    def mapInArrow(
        self, function: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], schema: Any
    ) -> "_LocalFrame":
        # In two tasks, as on Spark.
        half = self._rows.num_rows // 2
        tasks = self._rows.slice(0, half), self._rows.slice(half)
        made = [batch for task in tasks for batch in function(iter(task.to_batches()))]
        return _LocalFrame(pa.Table.from_batches(made) if made else pa.table({}))

    def toArrow(self) -> pa.Table:
        return self._rows

    def collect(self) -> list[Row]:
        return [Row(**row) for row in self._rows.to_pylist()]


class _LocalValues:
    """The part of an RDD that ingest and merging use."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def map(self, function: Callable[[Any], Any]) -> "_LocalValues":
        return _LocalValues([function(value) for value in self._values])

    def mapPartitions(self, function: Callable[[Iterable[Any]], Iterable[Any]]) -> "_LocalValues":
        return _LocalValues([made for value in self._values for made in function(iter([value]))])

    def collect(self) -> list[Any]:
        return list(self._values)
