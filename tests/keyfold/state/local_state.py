"""State without Spark: what `LocalBatches` keeps, in the hands of those who read the state store."""

import polars as pl
import pytest

from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.parts.folding import state_frames
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.running.state_manifests import state_manifests
from keyfold.state.changing import editing, moving
from keyfold.state.changing import state_rewriting as rewriting
from keyfold.state.reading.state_rows import partition_frames
from keyfold.testing.local_batches import local_manifests


def frames_of_state(generation, batch):
    """The rows of a generation's state, a frame or more a partition."""
    return [
        frame.drop(SLOT)
        for packed in local_manifests(generation, batch).values()
        for frame in state_frames(Manifest.unpack(packed), generation.parts)
    ]


def rows_of_keys(_spark, lakehouse, job, keys):
    """The rows of some keys in the last batch's state."""
    live = live_generation(lakehouse, job.name)
    assert live is not None
    done = live.journal.last_done()
    assert done is not None
    wanted = editing.wanted_keys(keys, job.key, job.state)
    assert wanted is not None
    where = f"job {job.name}, {live.name}, batch {done.batch}"
    frames = [
        frame.drop(SLOT)
        for packed in local_manifests(live, done.batch).values()
        for frame in partition_frames(where, live.parts, packed)
    ]
    return wanted.of(pl.concat(frames))


def map_manifests(spark, generation, batch, function):
    """Without a look at the checkpoint's files, which are not Spark's."""
    return state_manifests(spark, generation, batch).mapInArrow(function, "").collect()


@pytest.fixture
def state_without_spark(without_spark, monkeypatch):
    """Runs and rewritings go without Spark; give this for the session."""
    monkeypatch.setattr(rewriting, "map_manifests", map_manifests)
    monkeypatch.setattr(editing, "rows_of", rows_of_keys)
    monkeypatch.setattr(moving, "find_batch", lambda generation: None)
    return without_spark
