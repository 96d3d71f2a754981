"""Read the rows of a state partition in ranges of keys, by a few threads."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import polars as pl

from keyfold.errors import Damaged
from keyfold.keyed.calling.slots import Slots
from keyfold.keyed.state_parts.folding import Layers
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.storage.place import Place

THREADS = 4
"""Frames that are read at the same time. More of them mostly wait for the processor, and take memory."""

REMEDY = "nothing was changed; restore it from a backup, or read another batch or generation"


@contextmanager
def unreadable(state: str) -> Iterator[None]:
    """Name a state and a remedy in errors of reading it.

    Raises:
        Damaged: a manifest or a part is damaged.
    """
    try:
        yield
    except Damaged as error:
        raise Damaged(f"{state}: its state cannot be read: {error}; {REMEDY}") from error


def partition_reads(
    manifest: Manifest, parts: Place, columns: Sequence[str] | None = None, slots: Slots | None = None
) -> Iterator[Callable[[], pl.DataFrame]]:
    """Yield functions that each read rows of a state partition, with their `SLOT`, and all rows of their keys.

    They can be called in any thread, and raise `Damaged` where a part is damaged.

    Args:
        manifest: the partition's manifest.
        parts: the generation's folder of parts.
        columns: columns to read; all by default.
        slots: slots to read; all by default.

    Raises:
        Damaged: a part is damaged.
    """
    if not manifest.parts:
        return
    # An open file serves one thread at a time.
    idle = [Layers(manifest, parts)]

    def read(work: Callable[[Layers], pl.DataFrame | None]) -> pl.DataFrame:
        try:
            layers = idle.pop()
        except IndexError:
            layers = Layers(manifest, parts)
        rows = work(layers)
        idle.append(layers)
        assert rows is not None  # noqa: S101 - there are parts
        return rows

    if slots is None:
        yield from (partial(read, lambda part, at=at: part.between(*at, columns)) for at in idle[0].ranges())
    else:
        yield partial(read, lambda part: part.of(slots, columns))
