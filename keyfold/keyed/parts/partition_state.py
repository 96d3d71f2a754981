"""The state of a partition during a batch: its rows, and separately the rows that wait (`job.state.waiting`)."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import polars as pl

from keyfold.keyed.calling.slots import SLOT, Slots, are_among, distinct
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.parts.folding import together
from keyfold.keyed.parts.manifest import Manifest, Part
from keyfold.keyed.parts.part_rows import SIZES, Sizes
from keyfold.keyed.parts.store import Store
from keyfold.keyed.rows.codec import empty
from keyfold.storage.place import Place


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
        self._job = job
        self._before = Manifest(job.state.version) if before is None else before
        # Waiting rows are compacted less often, so the manifest would have many small parts: store them in files sooner.
        small = replace(sizes, inline_bytes=sizes.inline_bytes // 8)
        waiting = self._before.waiting or Manifest(job.state.version)
        self._rows = Store(self._before, folder, batch, sizes)
        self._waiting = Store(waiting, folder, batch, small, waits=True)
        self._slots_of_rows = self._slots_of_waiting = np.empty(0, np.uint64)

    def due(self, watermark: int, processing_time: int) -> Slots:
        """Return the slots with due timers. The parts do not track these timers after this batch."""
        return self._rows.due(watermark, processing_time)

    def rows(self, slots: Slots) -> pl.DataFrame:
        """Return all rows of some slots, with the columns of state and `SLOT`."""
        return self.with_waiting(self.without_waiting(slots), slots)

    def without_waiting(self, slots: Slots) -> pl.DataFrame:
        """Return the rows of some slots that do not wait, with the columns of state and `SLOT`."""
        rows = self._rows.rows(slots)
        return empty(self._job.state.schema).with_columns(pl.Series(SLOT, [], pl.UInt64)) if rows is None else rows

    def with_waiting(self, rows: pl.DataFrame, slots: Slots) -> pl.DataFrame:
        """Add the waiting rows of some slots to their other rows. The next call of `change` must be for these slots."""
        waiting = self._waiting.rows(slots)
        self._slots_of_rows = rows[SLOT].to_numpy()
        self._slots_of_waiting = self._slots_of_rows[:0] if waiting is None else waiting[SLOT].to_numpy()
        both = together(rows, waiting)
        assert both is not None  # noqa: S101 - there are rows, if none
        return both

    def begin(self, frames: Iterable[pl.DataFrame]) -> Manifest:
        """Write the initial state of a partition as parts.

        Args:
            frames: all rows with `SLOT`; the slots of a frame are after those of the previous one, in any order within it.
        """
        base: list[Part] = []
        waiting: list[Part] = []
        count = 0
        for rows in frames:
            others, waits = self._parted(rows)
            base += self._rows.begin([others])
            waiting += self._waiting.begin([waits])
            count += waits.height
        version = self._job.state.version
        apart = Manifest(version, count, tuple(waiting)) if waiting else None
        return Manifest(version, 0, tuple(base), waiting=apart)

    def change(self, before: pl.DataFrame, after: pl.DataFrame, added: pl.DataFrame, open_change: int) -> None:
        """Replace the rows of some slots, and add rows to others.

        Args:
            before: all rows of the slots that are replaced, as `rows` returned them, with all due slots.
            after: their replacements, with `SLOT`, sorted by it.
            added: rows that are added to other slots, with `SLOT`, sorted by it.
            open_change: change of the number of events in the rows.
        """
        had = distinct(before[SLOT].to_numpy())
        (after, waits), (added, more_waits) = self._parted(after), self._parted(added)
        if not self._slots_of_waiting.size and not waits.height and not more_waits.height:
            self._rows.change(had, after, added, open_change)
            return
        # By where the rows are stored: the job's condition may have changed since.
        stored, waiting = (slots[are_among(slots, had)] for slots in (self._slots_of_rows, self._slots_of_waiting))
        self._rows.change(distinct(stored), after, added, open_change)
        # The manifest of waiting rows counts rows, and not events.
        self._waiting.change(distinct(waiting), waits, more_waits, waits.height + more_waits.height - waiting.size)

    def wait(self, rows: pl.DataFrame, open_change: int) -> None:
        """Add waiting rows, with `SLOT`, sorted by it."""
        others, waits = self._parted(rows)
        none = rows.clear()
        self._rows.change(none[SLOT].to_numpy(), none, others, open_change)
        self._waiting.change(none[SLOT].to_numpy(), none, waits, waits.height)

    def end(self) -> Manifest:
        """Write the changes, and compact parts if there are many; returns the new manifest."""
        has_changed = self._rows.has_changed or self._waiting.has_changed
        new, waiting = self._rows.end(), self._waiting.end()
        version = self._job.state.version if has_changed else self._before.schema_version
        return replace(new, schema_version=version, waiting=waiting if waiting.parts else None)

    def _parted(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Separate rows that do not wait from those that do."""
        if self._job.state.waiting is None or not rows.height:
            return rows, rows.clear()
        waits = self._job.state.waiting.apart(rows)
        return rows.filter(~waits), rows.filter(waits)
