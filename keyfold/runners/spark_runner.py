"""Execute functions over record batches as plain Spark jobs: `mapInArrow`, `repartition`, `mapInArrow`.

Only calls that classic Spark and Spark Connect both have are used.
"""

import gc
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

import pyarrow as pa
from pyspark import InheritableThread, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from keyfold.errors import Unreachable, error_in
from keyfold.runners.runner import PARTITION, Item, OnBatches, Result
from keyfold.runners.shared_folders import check_folder
from keyfold.session.interrupts import in_thread
from keyfold.storage.place import Place

_RESULTS = pa.schema([("number", pa.int64()), ("result", pa.binary())])
_TASKS_PER_CORE = 2


class SparkRunner:
    """Executes functions in the tasks of a Spark session, of classic Spark or of Spark Connect."""

    in_one_process = False

    def __init__(self, session: SparkSession) -> None:
        # A client of Spark Connect is of a class of its own, and has neither a context nor `newSession`.
        self._is_classic = isinstance(session, SparkSession)
        # A session of its own, so that its settings are not those of the caller's session.
        self._session = session.newSession() if self._is_classic else session
        # Rows are few and large blobs: an Arrow batch of them must stay below the 2 GiB that a binary array can hold.
        self._session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(256 << 20))
        self._shared: set[tuple[Place, bool]] = set()

    @property
    def parallelism(self) -> int:
        """Number of tasks that run at the same time."""
        if self._is_classic:
            return self._call(lambda: self._session.sparkContext.defaultParallelism)
        # A client of Spark Connect cannot ask for the number of cores.
        return int(self._session.conf.get(_LEAVES, None) or _BY_DEFAULT)

    @property
    def cores_per_worker(self) -> int:
        """As `Runner.cores_per_worker`: those of an executor."""
        if self._is_on_this_machine():
            return self.parallelism
        return int(self._call(lambda: self._session.conf.get(_CORES, None)) or 1)

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """As `Runner.map`."""
        if not items:
            return []
        packed = [pickle.dumps(item) for item in items]

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    result = pickle.dumps(function(pickle.loads(packed[number])))  # noqa: S301 - pickled above
                    yield pa.record_batch([pa.array([number], pa.int64()), pa.array([result], pa.binary())], _RESULTS)

        def collect() -> list[Row]:
            numbers = self._session.range(0, len(items), 1, len(items))
            return numbers.mapInArrow(_in_worker(work), from_arrow_schema(_RESULTS)).collect()

        try:
            rows = sorted(self._call(collect))
        except PySparkException as error:
            if raised := error_in(str(error)):
                raise raised from error
            raise
        return [pickle.loads(row.result) for row in rows]  # noqa: S301 - pickled by our tasks

    def exchange(
        self, read: OnBatches, numbers: range, shuffled: pa.Schema, partitions: int, work: OnBatches, output: pa.Schema
    ) -> pa.Table:
        """As `Runner.exchange`."""
        tasks = min(len(numbers), self.parallelism)

        def collect() -> list[Row]:
            rows = self._session.range(numbers.start, numbers.stop, 1, tasks)
            # With a number of partitions, so that Spark does not coalesce them.
            rows = rows.mapInArrow(_in_worker(read), from_arrow_schema(shuffled)).repartition(partitions, PARTITION)
            return rows.mapInArrow(_in_worker(work), from_arrow_schema(output)).collect()

        return pa.Table.from_pylist([row.asDict() for row in self._call(collect)], output)

    def check_shared(self, folder: Place, *, writable: bool = True) -> None:
        """As `Runner.check_shared`; folders that were checked before are not checked again."""
        if self._is_on_this_machine() or (folder, writable) in self._shared:
            return
        # More tasks than cores, so that every executor is likely to get one.
        tasks = _TASKS_PER_CORE * max(2, self.parallelism)
        check_folder(folder, lambda look: self.map(look, range(tasks)), writable=writable)
        self._shared.add((folder, writable))

    def check_alive(self) -> None:
        """As `Runner.check_alive`. The next work asks a server of Spark Connect."""
        if self._is_classic:
            self._call(lambda: self._session.conf.get("spark.app.id"))

    def _call(self, call: Callable[[], Result]) -> Result:
        """Call Spark so that an interrupt cancels what it does, and other work of the same Spark goes on.

        Raises:
            Unreachable: Spark's Java process has ended.
        """
        session, tag = self._session, f"keyfold-{uuid.uuid4().hex}"
        # Tags of a session reach no jobs of `collect` in classic Spark (4.2.0).
        add, cancel = (
            (session.sparkContext.addJobTag, session.sparkContext.cancelJobsWithTag)
            if self._is_classic
            else (session.addTag, session.interruptTag)
        )

        def tagged() -> Result:
            add(tag)
            return call()

        thread = partial(InheritableThread, session=session)
        try:
            return in_thread(tagged, cancel=lambda: cancel(tag), thread_type=thread)
        except Exception as error:
            # By its name: a client of Spark Connect may lack py4j.
            if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
                raise Unreachable(
                    "Spark's Java process has ended: somebody killed it, or the machine ran out of memory. Committed batches stay, "
                    "and nothing is lost: run it again"
                ) from None
            raise

    def _is_on_this_machine(self) -> bool:
        return self._is_classic and str(self._session.sparkContext.master).startswith("local")


_LEAVES = "spark.sql.leafNodeDefaultParallelism"
_BY_DEFAULT = 8
_CORES = "spark.executor.cores"


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
