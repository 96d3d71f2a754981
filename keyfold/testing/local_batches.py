"""Run batches in this process, with all of the engine's code and a loop in place of Spark's query.

The loop keeps Spark's guarantees: it numbers batches, repeats a batch that was not finished, keeps the state of each attempt at
a batch separate, and at last marks a batch as finished, with the attempt that counts.
"""

import json
import pickle
from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa

from keyfold.errors import Damaged
from keyfold.keyed.generation.checkpoint import finished_batch, state_identities
from keyfold.keyed.generation.generations import RETAINED_BATCHES, Generation
from keyfold.keyed.plans.inputs import input_tables
from keyfold.keyed.running.batches import Batches, NoneLeft, readable
from keyfold.keyed.running.commit import forget
from keyfold.keyed.running.processor import EMITTED, STATE_VARIABLE, PartitionProcessor
from keyfold.keyed.running.read import read_slices
from keyfold.keyed.running.write import write_tables
from keyfold.lakehouse.files import write_once
from keyfold.storage.place import Place

_TASKS = 2
"""Number of tasks; more than one, as on Spark."""

State = dict[tuple[int, str], Any]
"""Values in the state store, by state partition and variable."""


class LocalBatches(Batches):
    """`Batches` with a loop in place of the query."""

    _attempt = ""

    def work(self) -> None:
        """Run batches until `next_plan` returns None; see `Batches.work`."""
        checkpoint = self._generation.checkpoint
        for folder in ("offsets", "commits", "state"):
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text("{}")
        finished = finished_batch(checkpoint)
        batch = 0 if finished is None else finished + 1
        try:
            while True:
                # As Spark: an entry in `offsets` begins a batch, and one in `commits` finishes it.
                (checkpoint / "offsets" / str(batch)).write_text("v1")
                self._attempt = uuid4().hex
                rows: Any = _Rows(self, batch)
                self._on_trigger(rows, batch)
                write_once(checkpoint / "commits" / str(batch), _finished_by(self._attempt))
                if self._is_single:
                    forget(self._job, self._generation, batch, RETAINED_BATCHES)
                    return
                batch += 1
        except NoneLeft:
            return
        except Exception as error:
            raise readable(self._job, error) from error

    def work_in_place(self, batch: int) -> list[dict[str, Any]]:
        """Read a batch, call the step for each state partition, and write the tables' files; returns the tasks' reports."""
        job, checkpoint = self._job, self._generation.checkpoint
        before = local_state(checkpoint, batch - 1)
        blobs = self._read(batch)
        # As on Spark, a batch fails without the state of the previous one.
        if batch and not before.exists():
            raise Damaged(
                f"job {job.name}: {before} is gone; restore it, or start a new generation with --full-refresh"
            )
        state: State = pickle.loads(before.read_bytes()) if batch else {}  # noqa: S301 - this class wrote it
        folders = {table.name: self._generation.table(table.name) for table in job.tables}
        schema = pa.schema([(field.name, pa.string() if field.name == "table" else pa.binary()) for field in EMITTED])
        reported: list[dict[str, Any]] = []
        for rows in self._called(blobs, state):
            for part in write_tables(job, folders)(iter([pa.RecordBatch.from_pylist(rows, schema=schema)])):
                reported += part.to_pylist()
        (checkpoint / "state" / f"{batch}_{self._attempt}").write_bytes(pickle.dumps(state))
        return reported

    def _read(self, batch: int) -> dict[int, list[Any]]:
        """Read the blobs of a batch, by state partition."""
        job = self._job
        inputs = input_tables(self._lakehouse, job)
        blobs: dict[int, list[Any]] = defaultdict(list)
        splits = self._generation.splits
        for task in range(_TASKS):
            numbers = pa.array(range(batch * splits + task, (batch + 1) * splits, _TASKS), pa.int64())
            reader = read_slices(job, self._journal.folder, inputs, self._generation.partitions, splits)
            for part in reader(iter([pa.record_batch([numbers], names=["value"])])):
                for row in part.to_pylist():
                    blobs[row["partition"]].append(SimpleNamespace(**row))
        return blobs

    def _called(self, blobs: dict[int, list[Any]], state: State) -> Iterator[list[dict[str, Any]]]:
        """Call the step for each state partition, which changes the state; yields the emitted rows by task."""
        processor = PartitionProcessor(self._job, self._generation.answers, self._generation.parts)
        handle: Any = _Handle(state)
        processor.init(handle)
        emitted: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for partition in sorted(blobs):
            handle.partition = partition
            rows = processor.handleInputRows((partition,), iter(blobs[partition]), None)
            emitted[partition % _TASKS] += [row.asDict() for row in rows]
        yield from emitted.values()


def local_state(checkpoint: Place, batch: int) -> Place:
    """Return the file with the state after a batch."""
    return checkpoint / "state" / f"{batch}{state_identities(checkpoint, batch).get('0', '')}"


def local_manifests(generation: Generation, batch: int) -> dict[int, bytes]:
    """Return the manifests of a generation's state after a batch, by the labels of its partitions."""
    stored: State = pickle.loads(local_state(generation.checkpoint, batch).read_bytes())  # noqa: S301 - LocalBatches wrote it
    return {label: value[0] for (label, name), value in sorted(stored.items()) if name == STATE_VARIABLE}


def _finished_by(attempt: str) -> bytes:
    return b"v2\n" + json.dumps({"stateUniqueIds": {"0": [[attempt]]}}).encode()


class _Rows:
    """The part of a Spark frame that `Batches` uses: `collect` runs the batch."""

    def __init__(self, batches: LocalBatches, batch: int) -> None:
        self._batches, self._batch = batches, batch

    def collect(self) -> list[dict[str, Any]]:
        return self._batches.work_in_place(self._batch)


class _Value(Protocol):
    def get(self) -> Any: ...

    def exists(self) -> bool: ...

    def update(self, newValue: Any) -> None: ...

    def clear(self) -> None: ...


class _Handle:
    """The part of Spark's state handle that the processor uses."""

    def __init__(self, state: State) -> None:
        self.partition, self._state = 0, state

    def getValueState(self, name: str, schema: Any) -> _Value:
        handle, state = self, self._state

        class Value:
            def get(self) -> Any:
                return state.get((handle.partition, name))

            def exists(self) -> bool:
                return (handle.partition, name) in state

            def update(self, newValue: Any) -> None:
                state[handle.partition, name] = newValue

            def clear(self) -> None:
                state.pop((handle.partition, name), None)

        return Value()
