"""What Spark knows of the operator: a stateful processor with one value a state partition, the manifest of its parts.

At each start of a query Spark starts a Python process to ask for this one alone, so this module loads little.
"""

from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from keyfold.keyed.running.worker import spare_what_is_loaded
from keyfold.storage.place import Place

STATE_VARIABLE = "partition_state"

# Types and not their names as text, here and below: a text costs two more round trips a variable and task.
EMITTED = StructType([StructField("table", StringType()), StructField("payload", BinaryType())])
"""Rows of a table as a blob."""
STORED = StructType([StructField("manifest", BinaryType())])
"""The manifest of a partition's parts (`parts.manifest`)."""


class PartitionProcessor(StatefulProcessor):
    """Hands each state partition of a batch to the operator; time is the plan's, so Spark's timers are not used.

    Args:
        job: a `KeyedJob`.
        answers: the folder of answers from outside.
        parts: the folder of parts of state.
    """

    def __init__(self, job: Any, answers: Place, parts: Place) -> None:
        # As bytes, read where the step is called: the process that is asked for the value loads neither job nor Polars, and
        # each run starts half a second sooner.
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
        spare_what_is_loaded()

    def close(self) -> None:
        """End a task; Spark calls it last."""
        _leave_open(self._handle)


_left_open: list[Any] = []


def _leave_open(handle: StatefulProcessorHandle) -> None:
    """Leave a task's connection to Spark's state open until the worker's next task, so that Java closes it.

    Java never closes one whose end it is told of (SPARK-58932, mended after 4.2.0): a file and a port a task, of which a
    process that goes on has no more after some ten thousand batches. But when a task is over it interrupts whoever still
    reads from its connection, and an interrupt closes it.
    """
    client: Any = handle._statefulProcessorApiClient
    # Java is not told that this is the last: it would stop reading, and leave the connection as it is.
    client.set_handle_state = lambda state: setattr(client, "handle_state", state)
    _left_open[:] = [client]
