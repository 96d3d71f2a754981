"""The state of a partition during a batch: find due slots, read rows, and write and compact parts."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, Slots, are_among, distinct, union
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
from keyfold.keyed.rows.codec import empty
from keyfold.keyed.state_parts.folding import Layers, Source, joined, replaced_slots
from keyfold.keyed.state_parts.manifest import NEVER, Manifest, Part
from keyfold.keyed.state_parts.parquet_part import write_part
from keyfold.keyed.state_parts.part_rows import ADDS, GONE, MARK, REPLACES, SIZES, Rows, Sizes
from keyfold.storage.place import Place

_HELD_BYTES = 128 << 20
"""Bytes of changed rows in memory at which they are written as a part."""


class PartitionState:
    """The rows of a partition before a batch, and the changes by the batch.

    Args:
        folder: folder of the parts.
        before: the manifest before the batch; None for an empty partition.
        sizes: sizes of parts.

    Raises:
        Damaged: on any use, if a part is missing or damaged.
    """

    def __init__(self, job: KeyedJob, folder: Place, before: Manifest | None, batch: int, sizes: Sizes = SIZES) -> None:
        self._state, self._folder, self._batch, self._sizes = job.state, folder, batch, sizes
        self._before = Manifest(job.state.version) if before is None else before
        self._parts = list(self._before.parts)
        self._layers = Layers(self._before, folder)
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0
        self._written: list[Part] = []
        self._open_change = 0
        self._replaced = 0

    def due(self, watermark: int, processing_time: int) -> Slots:
        """Return the slots with due timers. The parts do not track these timers after this batch."""
        due_slots = NO_SLOTS
        now = {DEADLINE: watermark, PROCESSING_DEADLINE: processing_time}
        for at, (part, source) in enumerate(zip(self._parts, self._layers.sources, strict=True)):
            since = {DEADLINE: part.deadline, PROCESSING_DEADLINE: part.processing_deadline}
            changed = [column for column in since if since[column] <= now[column]]
            if not changed:
                continue
            rows = source.between(0, 1 << 63, [SLOT, MARK, *changed]).filter(pl.col(MARK) != GONE)
            slots, is_due = rows[SLOT].to_numpy(), np.zeros(rows.height, bool)
            later: dict[str, int] = {}
            for column in changed:
                times = rows[column].to_physical().fill_null(NEVER).to_numpy()
                # Earlier timers were due in an earlier batch, and a later part has replaced their rows.
                is_due |= (times >= since[column]) & (times <= now[column])
                later[column] = int(times[times > now[column]].min(initial=NEVER))
            self._parts[at] = replace(part, **later)
            candidates = distinct(slots[is_due])
            for newer in self._newer(at):
                if candidates.size:
                    candidates = candidates[~are_among(candidates, replaced_slots(newer.of(candidates, [SLOT, MARK])))]
            due_slots = union(due_slots, candidates)
        return due_slots

    def rows(self, slots: Slots) -> pl.DataFrame:
        """Return the rows of some slots, with the columns of state and `SLOT`."""
        rows = self._layers.of(slots)
        return empty(self._state.schema).with_columns(pl.Series(SLOT, [], pl.UInt64)) if rows is None else rows

    def begin(self, frames: Iterable[pl.DataFrame]) -> Manifest:
        """Write the initial state of a partition as a base.

        Args:
            frames: all rows with `SLOT`; the slots of a frame are after those of the previous one, in any order within it.
        """
        base = [self._segment([rows.sort(SLOT, maintain_order=True)]) for rows in frames if rows.height]
        return Manifest(self._state.version, 0, tuple(base))

    def change(self, before: pl.DataFrame, after: pl.DataFrame, added: pl.DataFrame, open_change: int) -> None:
        """Replace the rows of some slots, and add rows to others.

        Args:
            before: all rows of the slots that are replaced, as `rows` returned them, with all due slots.
            after: their replacements, with `SLOT`, sorted by it.
            added: rows that are added to other slots, with `SLOT`, sorted by it.
            open_change: change of the number of events in the rows.
        """
        self._open_change += open_change
        had, has = distinct(before[SLOT].to_numpy()), distinct(after[SLOT].to_numpy())
        self._replaced += had.size
        gone = NO_SLOTS if np.array_equal(had, has) else had[~are_among(had, has)]
        changed, others = _marked(after, REPLACES), ((pl.DataFrame({SLOT: gone}), GONE), (added, ADDS))
        if more := [_marked(rows, mark) for rows, mark in others if rows.height]:
            changed = pl.concat([changed, *more], how="diagonal").sort(SLOT, maintain_order=True)
        if not changed.height:
            return
        self._held.append(changed)
        self._held_bytes += int(changed.estimated_size())
        if self._held_bytes >= _HELD_BYTES:
            self._written.append(self._write(self._take_held()))

    def end(self) -> Manifest:
        """Write the changes, and compact parts if there are many; returns the new manifest."""
        before = self._before
        open_events = before.open_events + self._open_change
        base, changes = self._parts[: len(before.base)], self._parts[len(before.base) :]
        new: Rows | None = Rows(self._take_held(), self._sizes) if self._held else None
        # Without changed rows, parts have other timers all the same: those that were due are not tracked any more.
        if new is None and not self._written:
            return replace(before, open_events=open_events, base=tuple(base), changes=tuple(changes))
        changed = sum(part.rows for part in (*changes, *self._written)) + (new.frame.height if new else 0)
        size = sum(part.size for part in (*self._parts, *self._written))
        size += int(new.frame.estimated_size()) if new else 0
        version = self._state.version
        if 2 * changed >= sum(part.rows for part in base) or size <= self._sizes.small_bytes:
            return Manifest(version, open_events, self._new_base(changes, new))
        if new is not None:
            self._written.append(self._joined(changes, new))
        return Manifest(version, open_events, tuple(base), (*changes, *self._written))

    def _new_base(self, changes: list[Part], new: Rows | None) -> tuple[Part, ...]:
        """Compact all parts into a new base, range by range."""
        base = self._before.base
        if not changes and self._replaced == sum(part.slots for part in base):
            base = ()  # all slots were replaced: the old base need not be read
        layers = Layers(Manifest(0, 0, base, (*changes, *self._written)), self._folder)
        if new is not None:
            layers.changes.append(new)
        segments: list[Part] = []
        waiting: list[pl.DataFrame] = []
        for begin, end in layers.ranges(self._sizes):
            waiting.append(layers.between(begin, end))
            if 2 * sum(rows.height for rows in waiting) >= self._sizes.rows_a_segment:
                segments.append(self._segment(waiting))
                waiting = []
        if any(rows.height for rows in waiting):
            segments.append(self._segment(waiting))
        return tuple(segments)

    def _segment(self, frames: list[pl.DataFrame]) -> Part:
        return self._write(_marked(pl.concat(frames), REPLACES))

    def _write(self, rows: pl.DataFrame) -> Part:
        return write_part(rows, self._batch, self._folder, self._sizes)

    def _joined(self, changes: list[Part], new: Rows) -> Part:
        """Write the new rows, compacted with the last parts if these are not much larger; removes them from `changes`."""
        count = 0 if self._written else self._count_joined(changes, new.frame.height)
        sources: list[Source] = [*self._layers.changes[len(changes) - count : len(changes)], new]
        del changes[len(changes) - count :]
        frames = [source.between(0, 1 << 63) for source in sources]
        return self._write(joined(frames))

    def _count_joined(self, changes: list[Part], rows: int) -> int:
        """Return how many of the last parts to compact with the new rows: those with less than twice as many rows."""
        count = 0
        while count < len(changes) and changes[-1 - count].rows < 2 * rows:
            rows += changes[-1 - count].rows
            count += 1
        return count

    def _newer(self, at: int) -> list[Source]:
        """Return the parts that may replace rows of a part; those of the base replace none."""
        count = len(self._before.base)
        return self._layers.changes[max(0, at - count + 1) if at >= count else 0 :]

    def _take_held(self) -> pl.DataFrame:
        held, self._held, self._held_bytes = pl.concat(self._held), [], 0
        return held if held[SLOT].is_sorted() else held.sort(SLOT, maintain_order=True)


def _marked(rows: pl.DataFrame, mark: int) -> pl.DataFrame:
    return rows.with_columns(pl.lit(mark, pl.UInt8).alias(MARK))
