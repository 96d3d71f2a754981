"""Connect the operator to Spark: a `StatefulProcessor` with one value per state partition, the manifest of its parts.

At each start of a query Spark starts a Python process that only loads this module, so it imports little.
"""

from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from keyfold.keyed.running.worker import freeze_loaded_modules
from keyfold.storage.place import Place

STATE_VARIABLE = "partition_state"

# Schemas as types, not as text: Spark parses a text with two more round trips to Java for each variable and task.
EMITTED = StructType([StructField("table", StringType()), StructField("payload", BinaryType())])
"""Emitted rows: a blob of rows of a table."""
STORED = StructType([StructField("manifest", BinaryType())])
"""The manifest of a partition's parts (`parts.manifest`)."""


class PartitionProcessor(StatefulProcessor):
    """Call the operator for each state partition of a batch. Spark's timers are not used: the plan has the clock.

    Args:
        job: a `KeyedJob`.
        answers: the folder of stored answers of external services.
        parts: the folder of state parts.
    """

    def __init__(self, job: Any, answers: Place, parts: Place) -> None:
        # As bytes, unpickled when the step is first called: the process that Spark starts first then imports neither the
        # job nor Polars, and each run starts half a second sooner.
        self._pickled, self._answers, self._parts = cloudpickle.dumps(job), answers, parts
        self._operator: Any = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._manifest = handle.getValueState(STATE_VARIABLE, STORED)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        if self._operator is None:
            from keyfold.keyed.running.operator import PartitionOperator  # noqa: PLC0415 - as in `__init__`

            job = cloudpickle.loads(self._pickled)
            self._operator = PartitionOperator(job, self._answers, self._parts, self._manifest)
        yield from self._operator.call(rows)
        freeze_loaded_modules()

    def close(self) -> None:
        """End a task; Spark's last call of it."""
        _leave_open(self._handle)


_left_open: list[Any] = []


def _leave_open(handle: StatefulProcessorHandle) -> None:
    """Leave a task's connection to Spark's state server open until the worker's next task, so that Java closes it.

    Java leaks a connection whose client reports its end (SPARK-58932, fixed after 4.2.0): a file descriptor and a port per
    task. A continuous run has used them up after some ten thousand batches. When a task ends, Java interrupts the thread that
    still reads from a connection, and the interrupt closes it.
    """
    client: Any = handle._statefulProcessorApiClient
    # Do not report the end to Java: it would stop reading, and leak the connection.
    client.set_handle_state = lambda state: setattr(client, "handle_state", state)
    _left_open[:] = [client]
