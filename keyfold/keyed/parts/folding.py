"""Folding: the rows that a partition has now, from its parts."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, Slots, are_among, distinct, union
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.parts.part_files import ADDS, GONE, MARK, SIZES, ArrowPart, PartFile, Rows, Sizes, open_part
from keyfold.storage.place import Place

Source = PartFile | ArrowPart | Rows

_END = 1 << 63


class Layers:
    """The parts of a state partition, opened to read: the base below, changes above it; and those of rows that wait apart.

    Args:
        manifest: names them.
        folder: of parts.
    """

    def __init__(self, manifest: Manifest, folder: Place) -> None:
        self._base = [(part.first, open_part(part, folder)) for part in manifest.base]
        self.changes: list[Source] = [open_part(part, folder) for part in manifest.changes]
        self._waiting = Layers(manifest.waiting, folder) if manifest.waiting else None

    @property
    def sources(self) -> list[Source]:
        """All of them, oldest first."""
        waiting = self._waiting.sources if self._waiting else []
        return [*(source for _, source in self._base), *self.changes, *waiting]

    def of(self, slots: Slots, columns: Sequence[str] | None = None) -> pl.DataFrame | None:
        """The rows of some slots, by slot, with `SLOT`, and with some columns alone if named; None without any part."""
        return together(self._of(slots, columns), self._waiting.of(slots, columns) if self._waiting else None)

    def between(self, begin: int, end: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows of the slots from `begin` to before `end`, by slot, with `SLOT`; with some columns alone if named."""
        if self._waiting is None:
            return self._between(begin, end, columns)
        waiting = self._waiting.between(begin, end, columns)
        if not self._base and not self.changes:
            return waiting
        found = together(self._between(begin, end, columns), waiting)
        assert found is not None  # noqa: S101 - both are there
        return found

    def _of(self, slots: Slots, columns: Sequence[str] | None) -> pl.DataFrame | None:
        if not self._base and not self.changes:
            return None
        wanted = None if columns is None else list(dict.fromkeys([*columns, SLOT, MARK]))
        frames = [*self._base_of(slots, wanted), *(source.of(slots, wanted) for source in self.changes)]
        return folded(frames or [self.sources[0].of(NO_SLOTS, wanted)])

    def _between(self, begin: int, end: int, columns: Sequence[str] | None) -> pl.DataFrame:
        wanted = None if columns is None else list(dict.fromkeys([*columns, SLOT, MARK]))
        changed = _newest([source.between(begin, end, wanted) for source in self.changes])
        replaced = NO_SLOTS if changed is None else replaced_slots(changed)
        frames: list[pl.DataFrame] = []
        for source in self._base_between(begin, end):
            # Of what is replaced whole, as where every key has events, no more is read than its slots.
            if replaced.size and are_among(source.between(begin, end, [SLOT])[SLOT].to_numpy(), replaced).all():
                continue
            frames.append(source.between(begin, end, wanted))
        if changed is not None:
            frames.append(changed)
        if not frames:
            frames = [source.between(begin, begin, wanted) for source in self.sources[:1]]
        # Base parts share no slot, so that to fold them is to put them one behind the other.
        return folded(frames)

    def ranges(self, sizes: Sizes = SIZES) -> list[tuple[int, int]]:
        """Ranges of slots, in order and without a gap, that have about as many rows as a file of the base."""
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
        """From which slot on, and to before which, each part of the base may have rows."""
        ends = [first for first, _ in self._base[1:]] + [_END]
        for (first, source), end in zip(self._base, ends, strict=False):  # without a base nothing is left to pair
            yield first, end, source


def state_frames(
    manifest: Manifest, folder: Place, columns: Sequence[str] | None = None, slots: Slots | None = None
) -> Iterator[pl.DataFrame]:
    """The rows of a partition with their `SLOT`, in order, in frames of which each has all rows of its keys.

    Args:
        manifest: of the partition.
        folder: of parts.
        columns: those wanted, all by default.
        slots: those wanted, all by default.

    Raises:
        Damaged: a part is gone, or is not what was written.
    """
    layers = Layers(manifest, folder)
    if slots is not None:
        if (rows := layers.of(slots)) is not None:
            yield rows if columns is None else rows.select(*columns, SLOT)
        return
    for begin, end in layers.ranges():
        yield layers.between(begin, end, columns)


def together(rows: pl.DataFrame | None, waiting: pl.DataFrame | None) -> pl.DataFrame | None:
    """Rows that do not wait and rows that do, by slot; None where there are none of either."""
    if rows is None or waiting is None or not rows.height:
        return rows if waiting is None else waiting
    if not waiting.height:
        return rows
    return pl.concat([rows, waiting.select(rows.columns)]).sort(SLOT, maintain_order=True)


def folded(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows that are left of frames of parts, oldest first: of each slot those from its last replacement on; by slot."""
    newest = _newest(frames)
    assert newest is not None  # noqa: S101 - callers give one frame at least
    return newest.filter(pl.col(MARK) != GONE).drop(MARK)


def joined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """As `folded`, with the marks: what stands for these parts as one."""
    newest = _newest(frames)
    assert newest is not None  # noqa: S101 - callers give one frame at least
    return newest


def replaced_slots(rows: pl.DataFrame) -> Slots:
    """The slots whose older rows count no more, by a part's rows, sorted by `SLOT`."""
    slots, adds = rows[SLOT].to_numpy(), rows[MARK].to_numpy() == ADDS
    return distinct(slots[~adds] if adds.any() else slots)


def _newest(frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    if not frames:
        return None
    taken: list[pl.DataFrame] = []
    replaced = NO_SLOTS
    for number, frame in enumerate(reversed(frames), 1):
        slots = frame[SLOT].to_numpy()
        kept = frame.filter(~are_among(slots, replaced)) if replaced.size and slots.size else frame
        taken.append(kept)
        if number < len(frames) and slots.size:
            replaced = union(replaced, replaced_slots(frame))
    filled = [frame for frame in reversed(taken) if frame.height]
    if len(filled) < 2:
        return filled[0] if filled else taken[-1]
    return pl.concat(filled).sort(SLOT, maintain_order=True)
