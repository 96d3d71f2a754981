"""The state of one partition during a batch: what is due, the rows of the keys that are needed, and what became of them."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import NO_SLOTS, SLOT, Slots, are_among, distinct, union
from keyfold.keyed.job.clock import DEADLINE, STALE_AT
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.parts.folding import Layers, Source, joined, replaced_slots
from keyfold.keyed.parts.manifest import NEVER, Manifest, Part
from keyfold.keyed.parts.part_files import ADDS, GONE, MARK, REPLACES, SIZES, Rows, Sizes, write_part
from keyfold.keyed.rows.codec import empty
from keyfold.storage.place import Place

_HELD_BYTES = 128 << 20
"""Changed rows that wait in memory, before they are written as a part of their own."""


class PartitionState:
    """A partition's rows before a batch, and what the batch makes of them.

    Args:
        job: whose state it is.
        folder: of parts.
        before: its manifest; None of a partition that keeps nothing.
        batch: the one at work.
        sizes: how large parts are.

    Raises:
        Damaged: on any use: a part is not what was written.
    """

    def __init__(self, job: KeyedJob, folder: Place, before: Manifest | None, batch: int, sizes: Sizes = SIZES) -> None:
        self._job, self._folder, self._batch, self._sizes = job, folder, batch, sizes
        self._before = Manifest(job.schema_version) if before is None else before
        self._parts = list(self._before.parts)
        self._layers = Layers(self._before, folder)
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0
        self._written: list[Part] = []
        self._open_change = 0
        self._replaced = 0

    def due(self, watermark: int, processing_time: int) -> Slots:
        """The slots of rows whose `deadline` or `stale_at` has been reached; of their timers the parts say no more after it."""
        found = NO_SLOTS
        now = {DEADLINE: watermark, STALE_AT: processing_time}
        for at, (part, source) in enumerate(zip(self._parts, self._layers.sources, strict=True)):
            since = {DEADLINE: part.deadline, STALE_AT: part.stale_at}
            reached = [column for column in since if since[column] <= now[column]]
            if not reached:
                continue
            rows = source.between(0, 1 << 63, [SLOT, MARK, *reached]).filter(pl.col(MARK) != GONE)
            slots, is_due = rows[SLOT].to_numpy(), np.zeros(rows.height, bool)
            later: dict[str, int] = {}
            for column in reached:
                times = rows[column].to_physical().fill_null(NEVER).to_numpy()
                # Those before were due in an earlier batch, and a later part has what became of them.
                is_due |= (times >= since[column]) & (times <= now[column])
                later[column] = int(times[times > now[column]].min(initial=NEVER))
            self._parts[at] = replace(part, **later)
            candidates = distinct(slots[is_due])
            for newer in self._newer(at):
                if candidates.size:
                    candidates = candidates[~are_among(candidates, replaced_slots(newer.of(candidates, [SLOT, MARK])))]
            found = union(found, candidates)
        return found

    def rows(self, slots: Slots) -> pl.DataFrame:
        """The rows of some slots, in the columns of state and `SLOT`."""
        found = self._layers.of(slots)
        return self.no_rows() if found is None else found

    def no_rows(self) -> pl.DataFrame:
        """No rows, in the columns of state and `SLOT`."""
        return empty(self._job.state).with_columns(pl.Series(SLOT, [], pl.UInt64))

    def begin(self, frames: Iterable[pl.DataFrame]) -> tuple[Part, ...]:
        """Write the rows that the partition begins with; gives the parts of its base.

        Args:
            frames: rows with `SLOT`, each of a range of slots behind the one before, in any order within it.
        """
        return tuple(self._segment([rows.sort(SLOT, maintain_order=True)]) for rows in frames if rows.height)

    def change(self, before: pl.DataFrame, after: pl.DataFrame, added: pl.DataFrame, open_change: int) -> None:
        """Put rows in the place of those that some slots have, and add rows to others; slots come in order, call by call.

        Args:
            before: of the slots that are replaced, all of their rows, as `rows` gave them; slots that are due are among them.
            after: in their place, with `SLOT`, sorted by it.
            added: to what other slots have, with `SLOT`, sorted by it.
            open_change: how many more events the rows stand for than before.
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
            self._written.append(write_part(self._take_held(), self._batch, self._folder, self._sizes))

    def end(self) -> Manifest:
        """Write what changed, and join parts where they have added up; gives what the partition has from here on."""
        before = self._before
        open_events = before.open_events + self._open_change
        base, changes = self._parts[: len(before.base)], self._parts[len(before.base) :]
        new: Rows | None = Rows(self._take_held(), self._sizes) if self._held else None
        if new is None and not self._written:
            return Manifest(before.schema_version, open_events, tuple(base), tuple(changes))
        changed = sum(part.rows for part in (*changes, *self._written)) + (new.frame.height if new else 0)
        size = before.size + sum(part.size for part in self._written)
        size += int(new.frame.estimated_size()) if new else 0
        if 2 * changed >= sum(part.rows for part in base) or size <= self._sizes.small_bytes:
            return Manifest(self._job.schema_version, open_events, self._new_base(changes, new))
        if new is not None:
            self._written.append(self._joined(changes, new))
        return Manifest(self._job.schema_version, open_events, tuple(base), (*changes, *self._written))

    def _new_base(self, changes: list[Part], new: Rows | None) -> tuple[Part, ...]:
        """All parts as one base, range by range."""
        base = self._before.base
        if not changes and self._replaced == sum(part.slots for part in base):
            base = ()  # every key was replaced: there is nothing to read of them again
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
        rows = _marked(pl.concat(frames), REPLACES)
        return write_part(rows, self._batch, self._folder, self._sizes)

    def _joined(self, changes: list[Part], new: Rows) -> Part:
        """The new rows, with those of the last parts where these are not twice as many; takes the parts from `changes`."""
        rows, count = new.frame.height, 0
        if not self._written:
            while count < len(changes) and changes[-1 - count].rows < 2 * rows:
                rows += changes[-1 - count].rows
                count += 1
        sources: list[Source] = [*self._layers.changes[len(changes) - count : len(changes)], new]
        del changes[len(changes) - count :]
        frames = [source.between(0, 1 << 63) for source in sources]
        return write_part(joined(frames), self._batch, self._folder, self._sizes)

    def _newer(self, at: int) -> list[Source]:
        """The parts that may replace rows of one; those of the base replace none."""
        count = len(self._before.base)
        return self._layers.changes[max(0, at - count + 1) if at >= count else 0 :]

    def _take_held(self) -> pl.DataFrame:
        held, self._held, self._held_bytes = self._held, [], 0
        return pl.concat(held)


def _marked(rows: pl.DataFrame, mark: int) -> pl.DataFrame:
    return rows.with_columns(pl.lit(mark, pl.UInt8).alias(MARK))
