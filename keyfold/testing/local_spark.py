"""Replace a Spark session in tests of ingest and runs."""

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast

from pyspark.sql import SparkSession

from keyfold.testing.local_batches import LocalBatches


class LocalSpark:
    """A stand-in for a Spark session: ingest and runs of jobs work in this process. `local_spark` makes one.

    It stores state in its own format. A generation that ran on it cannot run on Spark, nor the other way round, and
    `read_state` reads only Spark's state.
    """

    batches = LocalBatches

    def __init__(self) -> None:
        # Read for the number of shuffle partitions only.
        self.conf = SimpleNamespace(get=lambda _: "2")
        self.sparkContext = _LocalContext()

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

    `keyfold.ingest` and `keyfold.run` accept it, for any job. Tables, journals and counts are those that Spark would make.

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
