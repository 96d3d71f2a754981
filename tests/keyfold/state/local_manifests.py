"""The reader without Spark: manifests as `LocalBatches` keeps them, behind as much of a frame as the reader asks of one."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from keyfold.keyed.generation.checkpoint import finished_batch
from keyfold.state.reading import reader
from keyfold.testing.local_batches import local_manifests

TASKS = 2


class Told(dict[str, Any]):
    """A row that was collected."""

    def asDict(self):
        return dict(self)


class LocalManifests:
    """Rows `partition`, `manifest`, in the order of no one: two tasks have them in turn."""

    def __init__(self, found):
        self.found = found

    def first(self):
        return next(iter(self.toLocalIterator()), None)

    def toLocalIterator(self):
        return ({"partition": label, "manifest": packed} for label, packed in self.found.items())

    def mapInArrow(self, function, _schema):
        told = []
        for task in range(TASKS):
            part = list(self.found.items())[task::TASKS]
            batch = pa.record_batch(
                [pa.array([label for label, _ in part], pa.int32()), pa.array([one for _, one in part], pa.binary())],
                names=["partition", "manifest"],
            )
            told += [Told(row) for made in function(iter([batch])) for row in made.to_pylist()]
        return SimpleNamespace(collect=lambda: told)


def manifests_of(rows: Any) -> dict[int, bytes]:
    """The manifests that rows of state are read by, by the labels of partitions."""
    return rows._manifests.found


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
    monkeypatch.setattr(
        reader, "state_manifests", lambda _, generation, batch: LocalManifests(local_manifests(generation, batch))
    )
    monkeypatch.setattr(
        reader,
        "find_batch",
        lambda generation, batch: finished_batch(generation.checkpoint) if batch is None else batch,
    )
    monkeypatch.setattr(
        reader,
        "of_partitions",
        lambda found, labels: LocalManifests({one: found.found[one] for one in found.found if one in labels}),
    )
    return SESSION
