"""The state of a generation as frames, read past the reader that is under test."""

import shutil
from collections.abc import Iterator

import polars as pl

from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.state_parts.folding import Layers
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.lakehouse import Lakehouse
from keyfold.storage.place import Place
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.job_histories import put
from tests.lake import Lake
from tests.shop import CLICK, clicks


def manifests_after(generation, batch):
    """The manifests of a generation's state after a batch, by the labels of the partitions."""
    return read_manifests(generation.manifests, files_of(generation.journal.done(batch)))


def frames_of_state(generation, batch):
    """The rows of a generation's state, a frame or more a partition."""
    return [
        frame.drop(SLOT)
        for packed in manifests_after(generation, batch).values()
        for frame in state_frames(Manifest.unpack(packed), generation.parts)
    ]


def state_frames(manifest: Manifest, folder: Place) -> Iterator[pl.DataFrame]:
    """The rows of a partition, sorted by slot, in frames that have all rows of their keys."""
    layers = Layers(manifest, folder)
    for begin, end in layers.ranges():
        yield layers.between(begin, end, None)


def copied(lakehouse, name):
    shutil.copytree(lakehouse.home, lakehouse.home.parent / name)
    return Lakehouse(lakehouse.home.parent / name)


def land(lakehouse, *events):
    put(lakehouse, "clicks", clicks(*events), CLICK)


def live(lakehouse):
    return Lake(lakehouse).live("windows")


def tables(lakehouse):
    """The rows of the job's tables."""
    return {table.name: sorted(pl.read_delta(str(lakehouse.table(table.name))).rows()) for table in windows().tables}
