"""The engine without Spark: all of its own code, journal, workers' functions and commits, and a loop where Spark would be.

What stands in for Spark does what Spark promises: it numbers batches, calls for each that it has begun and not finished
again, keeps the state of every batch apart, and marks a batch as finished last.
"""

import pickle
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed import runner, seeding
from keyfold.keyed.batches import Batches, _NoneLeft, _readable
from keyfold.keyed.checkpoint import finished_batch
from keyfold.keyed.processor import EMITTED, KeyGroupProcessor
from keyfold.keyed.read import SPLITS, read_slices
from keyfold.keyed.write import write_tables
from keyfold.lakehouse import fail_points

SPARK: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "2"))
"""As much of a session as a run asks for outside of the query."""

TASKS = 2


class LocalBatches(Batches):
    """Batches, with a loop in place of the query."""

    def work(self):
        checkpoint = self._generation.checkpoint
        for folder in ("offsets", "commits", "state"):
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text("{}")
        finished = finished_batch(checkpoint)
        batch = 0 if finished is None else finished + 1
        try:
            while True:
                (checkpoint / "offsets" / str(batch)).write_text("v1")
                rows: Any = SimpleNamespace(collect=lambda number=batch: self._work_in_place(number))
                self._on_trigger(rows, batch)
                (checkpoint / "commits" / str(batch)).write_text("v1")
                batch += 1
        except _NoneLeft:
            return
        except Exception as error:
            raise _readable(self._job, error) from error

    def _work_in_place(self, batch):
        job, checkpoint = self._job, self._generation.checkpoint
        inputs = {f"events.{job.stream.name}": self._lakehouse.events(job.stream.name)}
        blobs = defaultdict(list)
        for task in range(TASKS):
            splits = pa.array(range(batch * SPLITS + task, (batch + 1) * SPLITS, TASKS), pa.int64())
            reader = read_slices(job, self._journal.folder, inputs)
            for part in reader([pa.record_batch([splits], names=["value"])]):
                for row in part.to_pylist():
                    blobs[row["key_group"]].append(SimpleNamespace(**row))
        before = checkpoint / "state" / str(batch - 1)
        # Of what is gone Spark says so too, and forgets nothing in silence.
        if batch and not before.exists():
            raise KeyfoldError(
                f"job {job.name}: {before} is gone; restore it, or start a new generation with --full-refresh"
            )
        state = pickle.loads(before.read_bytes()) if batch else {}  # noqa: S301 - this class wrote it
        processor = KeyGroupProcessor(job, self._generation.answers)
        handle: Any = _Handle(state)
        processor.init(handle)
        emitted = defaultdict(list)
        for group in sorted(blobs):
            handle.group = group
            emitted[group % TASKS] += [
                row.asDict() for row in processor.handleInputRows((group,), iter(blobs[group]), None)
            ]
        folders = {table.name: self._generation.table(table.name) for table in job.tables}
        schema = pa.schema([(field.name, pa.string() if field.name == "table" else pa.binary()) for field in EMITTED])
        told = []
        for rows in emitted.values():
            for part in write_tables(job, folders)([pa.RecordBatch.from_pylist(rows, schema=schema)]):
                told += part.to_pylist()
        (checkpoint / "state" / str(batch)).write_bytes(pickle.dumps(state))
        return told


class _Handle:
    def __init__(self, state):
        self.group, self._state = None, state

    def getValueState(self, name, schema):
        handle, state = self, self._state

        class Value:
            def get(self):
                return state.get((handle.group, name))

            def update(self, value):
                state[handle.group, name] = value

            def clear(self):
                state.pop((handle.group, name), None)

        return Value()


class PowerCut(Exception):
    """Stands for a kill at one moment."""


class Cut:
    """Cuts the power at the n-th time that a point is reached."""

    def __init__(self, point, count=1):
        self._point, self._left = point, count

    def __call__(self, point):
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                raise PowerCut(point)


@pytest.fixture
def without_spark(monkeypatch):
    """Runs go without Spark; give `SPARK` for the session."""
    for module in (runner, seeding):
        monkeypatch.setattr(module, "Batches", LocalBatches)
    return SPARK


@pytest.fixture
def cut_power(monkeypatch):
    """Cut the power at a point while a function runs; gives whether it came to that."""

    def cut(point, run, count=1):
        with monkeypatch.context() as patch:
            patch.setattr(fail_points, "act", Cut(point, count))
            try:
                run()
            except Exception as error:
                if (
                    "PowerCut" not in repr(error)
                    and not isinstance(error.__cause__, PowerCut)
                    and point not in str(error)
                ):
                    raise
                return True
        return False

    return cut
