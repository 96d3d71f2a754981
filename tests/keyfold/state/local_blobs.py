"""The reader without Spark: blobs as `LocalBatches` keeps them, behind as much of a frame as the reader asks of one."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from keyfold.keyed.checkpoint import finished_batch
from keyfold.state import reader
from tests.keyfold.state.local_state import blobs

TASKS = 2


class Told(dict[str, Any]):
    """A row that was collected."""

    def asDict(self):
        return dict(self)


class LocalBlobs:
    """Rows `key_group`, `payload`, in the order of no one: two tasks have them in turn."""

    def __init__(self, found):
        self.found = found

    def first(self):
        return next(iter(self.toLocalIterator()), None)

    def toLocalIterator(self):
        return ({"key_group": group, "payload": payload} for group, payload in self.found.items())

    def mapInArrow(self, function, _schema):
        told = []
        for task in range(TASKS):
            part = list(self.found.items())[task::TASKS]
            batch = pa.record_batch(
                [pa.array([group for group, _ in part], pa.int32()), pa.array([blob for _, blob in part], pa.binary())],
                names=["key_group", "payload"],
            )
            told += [Told(row) for made in function(iter([batch])) for row in made.to_pylist()]
        return SimpleNamespace(collect=lambda: told)


def blobs_of(rows: Any) -> dict[int, bytes]:
    """The blobs that rows of state are read from, by key group."""
    return rows._blobs.found


SESSION: Any = SimpleNamespace(
    newSession=lambda: SimpleNamespace(
        conf=SimpleNamespace(set=lambda *_: None),
        createDataFrame=lambda *_: SimpleNamespace(collect=list),
    )
)
"""As much of a session as the reader asks for."""


@pytest.fixture
def local_reader(monkeypatch):
    """The reader reads what runs without Spark have kept; give this for the session."""
    monkeypatch.setattr(reader, "state_blobs", lambda _, generation, batch: LocalBlobs(blobs(generation, batch)))
    monkeypatch.setattr(
        reader,
        "find_batch",
        lambda generation, batch: finished_batch(generation.checkpoint) if batch is None else batch,
    )
    monkeypatch.setattr(
        reader, "_of_groups", lambda found, groups: LocalBlobs({g: found.found[g] for g in found.found if g in groups})
    )
    return SESSION
