"""Fold the parts of a partition into its current rows."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, Slots, are_among, distinct, union
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.parquet_part import ParquetPart
from keyfold.keyed.state_parts.part_rows import ADDS, GONE, MARK, SIZES, Rows, Sizes
from keyfold.storage.place import Place

Source = ParquetPart | Rows

_END = 1 << 63


class Layers:
    """The parts of a state partition, opened for reading: the base and the changes.

    Args:
        manifest: the manifest of the partition.
        folder: folder of the parts.
    """

    def __init__(self, manifest: Manifest, folder: Place) -> None:
        self._base = [(part.first, ParquetPart(part, folder)) for part in manifest.base]
        self.changes: list[Source] = [ParquetPart(part, folder) for part in manifest.changes]

    @property
    def sources(self) -> list[Source]:
        """All parts, oldest first."""
        return [*(source for _, source in self._base), *self.changes]

    def of(self, slots: Slots, columns: Sequence[str] | None = None) -> pl.DataFrame | None:
        """Return the rows of some slots, sorted by `SLOT`, with all columns or the named ones; None without parts."""
        if not self._base and not self.changes:
            return None
        wanted = None if columns is None else list(dict.fromkeys([*columns, SLOT, MARK]))
        frames = [*self._base_of(slots, wanted), *(source.of(slots, wanted) for source in self.changes)]
        return folded(frames or [self.sources[0].of(NO_SLOTS, wanted)])

    def between(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of slots from `begin` to before `end`, sorted by `SLOT`, with all columns or the named ones."""
        wanted = None if columns is None else list(dict.fromkeys([*columns, SLOT, MARK]))
        changed = _newest([source.between(begin, end, wanted) for source in self.changes])
        replaced = NO_SLOTS if changed is None else replaced_slots(changed)
        frames: list[pl.DataFrame] = []
        for source in self._base_between(begin, end):
            # If all slots of a part are replaced, such as when every key has events, read only its slots.
            if replaced.size and are_among(source.between(begin, end, [SLOT])[SLOT].to_numpy(), replaced).all():
                continue
            frames.append(source.between(begin, end, wanted))
        if changed is not None:
            frames.append(changed)
        # No rows, but their columns.
        if not frames:
            frames = [source.between(begin, begin, wanted) for source in self.sources[:1]]
        # Base parts share no slot, so folding concatenates them.
        return folded(frames)

    def ranges(self, sizes: Sizes = SIZES) -> list[tuple[int, int]]:
        """Return ranges of slots, in order and without gaps, with about as many rows each as a file of the base."""
        starts = [source.starts for source in self.sources]
        if not starts:
            return []
        every = max(1, sizes.rows_a_segment // sizes.rows_a_group)
        cuts = [int(cut) for cut in distinct(np.sort(np.concatenate(starts))[every::every])]
        return list(zip([0, *cuts], [*cuts, _END], strict=True))

    def _base_of(self, slots: Slots, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
        for begin, end, source in self._spans():
            first, last = np.searchsorted(slots, np.array([begin, end], np.uint64))
            if last > first:
                yield source.of(slots[first:last], columns)

    def _base_between(self, begin: int, end: int) -> list[Source]:
        return [source for first, last, source in self._spans() if first < end and begin < last]

    def _spans(self) -> Iterator[tuple[int, int, Source]]:
        """Yield each part of the base with its range of slots; the end is exclusive."""
        ends = [first for first, _ in self._base[1:]] + [_END]
        for (first, source), end in zip(self._base, ends, strict=False):  # without a base nothing is left to pair
            yield first, end, source


def folded(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Fold frames of parts, oldest first: keep the rows of each slot from its last replacement on, sorted by slot."""
    newest = _newest(frames)
    assert newest is not None  # noqa: S101 - callers give one frame at least
    return newest.filter(pl.col(MARK) != GONE).drop(MARK)


def joined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """As `folded`, but keep the marks, so that the result can replace these parts."""
    newest = _newest(frames)
    assert newest is not None  # noqa: S101 - callers give one frame at least
    return newest


def replaced_slots(rows: pl.DataFrame) -> Slots:
    """Return the slots whose older rows a part replaces; its rows are sorted by `SLOT`."""
    slots, adds = rows[SLOT].to_numpy(), rows[MARK].to_numpy() == ADDS
    return distinct(slots[~adds] if adds.any() else slots)


def _newest(frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    if not frames:
        return None
    taken: list[pl.DataFrame] = []
    replaced = NO_SLOTS
    # From the newest frame on, so that rows of slots which a newer frame replaces are dropped before anything is sorted.
    for number, frame in enumerate(reversed(frames), 1):
        slots = frame[SLOT].to_numpy()
        remaining = frame.filter(~are_among(slots, replaced)) if replaced.size and slots.size else frame
        taken.append(remaining)
        # Nothing is older than the last frame.
        if number < len(frames) and slots.size:
            replaced = union(replaced, replaced_slots(frame))
    filled = [frame for frame in reversed(taken) if frame.height]
    if len(filled) < 2:
        return filled[0] if filled else taken[-1]
    return pl.concat(filled).sort(SLOT, maintain_order=True)
