"""State without Spark: what `LocalBatches` keeps, in the hands of those who read the state store."""

import pickle

import pyarrow as pa
import pytest

from keyfold.keyed.processor import STATE_VARIABLE
from keyfold.state import moving, rewriting


def blobs(generation, batch):
    """The blobs of a generation's state, by key group."""
    stored = pickle.loads((generation.checkpoint / "state" / str(batch)).read_bytes())  # noqa: S301 - LocalBatches wrote it
    return {group: value[0] for (group, name), value in sorted(stored.items()) if name == STATE_VARIABLE}


def map_blobs(_spark, generation, batch, function):
    """In two tasks, as many blobs at a time as there are."""
    found = list(blobs(generation, batch).items())
    told = []
    for task in range(2):
        part = found[task::2]
        columns = [pa.array([group for group, _ in part]), pa.array([blob for _, blob in part], pa.binary())]
        batches = [pa.record_batch(columns, names=["key_group", "payload"])]
        for answer in function(batches):
            told += answer.to_pylist()
    return told


@pytest.fixture
def state_without_spark(without_spark, monkeypatch):
    """Runs and rewritings go without Spark; give this for the session."""
    monkeypatch.setattr(rewriting, "map_blobs", map_blobs)
    monkeypatch.setattr(moving, "find_batch", lambda generation: None)
    return without_spark
