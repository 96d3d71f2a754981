"""The state of a generation as frames, read past the reader that is under test."""

from keyfold.keyed.calling.slots import SLOT
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.parts.folding import state_frames
from keyfold.keyed.parts.manifest import Manifest


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
