"""Turn rows into parts of state that no step has made: those that a new generation begins with, and those of keys that are edited.

Both are the work of a batch that reads no events. Rows are checked, and divided by slot, as those of a step are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from keyfold.errors import IncompatibleState
from keyfold.keyed.calling.slots import SLOT, Slots, distinct, key_groups_of, partition_labels, slots_of, union
from keyfold.keyed.calling.step_call import count
from keyfold.keyed.execution.batches import Tasks
from keyfold.keyed.execution.blobs import Handover, blobs, cut_rows, partition_numbers, report_of
from keyfold.keyed.execution.operator import Emitted, PartitionResult
from keyfold.keyed.execution.work import work_on_partitions
from keyfold.keyed.generation.batch_records import KeyedPlan
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.manifests import files_of, read_manifests
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.rows.codec import conform, empty
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_reading import partition_reads
from keyfold.keyed.state_parts.part_rows import SIZES
from keyfold.keyed.state_parts.partition_state import PartitionState
from keyfold.privacy import describe_error, errors_without_values
from keyfold.runners.runner import OnBatches
from keyfold.storage.place import Place

ChangeRows = Callable[[pl.DataFrame], pl.DataFrame]
"""Makes rows of a job's state of other rows. Tasks call it with frames that have all rows of their keys, in any order."""

ReadShare = Callable[[int, int], Iterator[pl.DataFrame]]
"""Reads a share of rows in a task, given its number and the number of shares."""

_RANGES = 16
"""Number of ranges of slots that a partition's rows are divided into, so that a task holds one range at a time."""


def rows_of_state(job: KeyedJob, change: ChangeRows, rows: pl.DataFrame) -> pl.DataFrame:
    """Change rows, and check that they can be state of the job; returns them with their `SLOT`.

    Raises:
        AnswerError: a column is missing, unknown, or has another type.
        ValueError: a column has NULLs and must not.
    """
    changed, schema = conform(change(rows), job.state.schema, "changed state"), job.state.schema
    if empty := [field.name for field in schema if not field.nullable and changed[field.name].null_count()]:
        raise ValueError(f"{', '.join(empty)} is empty in some rows, and may not be")
    return changed.with_columns(pl.Series(SLOT, slots_of(job, changed)))


def first_state(job: KeyedJob, generation: Generation, read: ReadShare, change: ChangeRows, source: str) -> Tasks:
    """Make the tasks of the batch that writes the state that a generation begins with. Due timers fire in the next batch.

    Args:
        read: reads the rows of the source.
        change: makes rows of state of them.
        source: describes the source, for messages.

    Raises:
        IncompatibleState: in a task, rows of the source cannot become state of the job.
    """
    labels, shares, folder = partition_labels(generation.partitions), generation.splits, generation.parts

    def changed(rows: pl.DataFrame) -> pl.DataFrame:
        try:
            return rows_of_state(job, change, rows)
        # A migration is the job's code, and may raise anything.
        except Exception as error:
            raise IncompatibleState(
                f"{source}: its rows cannot be converted to state of the changed job: {describe_error(error, job.private)}; the "
                "old generation stays live"
            ) from (None if job.private else error)

    def divided(share: int, handover: Handover) -> Iterator[pa.RecordBatch]:
        for turn, rows in enumerate(read(share, shares)):
            placed = changed(rows)
            slots = placed[SLOT].to_numpy()
            ranges = key_groups_of(slots) * np.uint64(_RANGES) // np.uint64(job.key_groups)
            # One sort cuts the rows by partition and range.
            numbers = partition_numbers(slots, len(labels)) * _RANGES + ranges.astype(np.uint16)
            for number, payload in cut_rows(placed, numbers, len(labels) * _RANGES, handover):
                partition, range_ = divmod(number, _RANGES)
                yield blobs([labels[partition]], [(share + turn * shares) * _RANGES + range_], [payload])

    def begun(payloads: Sequence[tuple[int, Any]], handover: Handover) -> PartitionResult:
        ranges: list[list[Any]] = [[] for _ in range(_RANGES)]
        # In the order of the source: a key's rows stay in it.
        for sequence, payload in sorted(payloads, key=_sequence):
            ranges[sequence % _RANGES].append(payload)
        open_events = 0

        def frames() -> Iterator[pl.DataFrame]:
            nonlocal open_events
            for of_range in ranges:
                if of_range:
                    rows = pl.concat(map(handover.unpack, of_range), rechunk=True)
                    open_events += count(rows, job.state.events)
                    yield rows

        state = PartitionState(job, folder, None, 0, SIZES)
        # `frames` counts events while the rows are written, so that only one range is in memory.
        manifest = state.begin(frames())
        manifest = replace(manifest, open_events=open_events)
        return PartitionResult(report_of(0, open_events, manifest), manifest if manifest.parts else None)

    def tasks(plan: KeyedPlan, manifests: Any, handover: Handover) -> tuple[OnBatches, OnBatches]:
        def read_shares(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with errors_without_values(f"job {job.name}", job.private):
                for batch in batches:
                    for number in batch.column(0).to_pylist():
                        yield from divided(number % shares, handover)

        def begin(payloads: Sequence[tuple[int, Any]], before: Manifest | None) -> Emitted:
            yield from ()
            return begun(payloads, handover)

        return read_shares, work_on_partitions(job, generation, manifests, begin)

    return tasks


def changed_state(job: KeyedJob, generation: Generation, slots: Slots, change: ChangeRows) -> Tasks:
    """Make the tasks of the batch that changes the rows of some slots. Parts of other partitions are not read."""
    labels, splits, folder = partition_labels(generation.partitions), generation.splits, generation.parts

    def tasks(plan: KeyedPlan, manifests: Any, handover: Handover) -> tuple[OnBatches, OnBatches]:
        batch = plan.batch

        def read_slots(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
            if batch * splits in numbers:
                of_partition = partition_numbers(slots, len(labels))
                frames = (pl.DataFrame({SLOT: slots[of_partition == number]}) for number in range(len(labels)))
                # Each partition reports its timers, also one without a changed slot.
                yield blobs(labels, [0] * len(labels), [handover.pack(frame) for frame in frames])

        def edit(payloads: Sequence[tuple[int, Any]], before: Manifest | None) -> Emitted:
            yield from ()
            changing = handover.unpack(payloads[0][1])[SLOT].to_numpy()
            if before is None or not changing.size:
                return PartitionResult(report_of(0, 0, before), before)
            state = PartitionState(job, folder, before, batch, SIZES)
            rows = state.rows(changing)
            new_rows = rows_of_state(job, change, rows.drop(SLOT)).sort(SLOT, maintain_order=True)
            open_change = count(new_rows, job.state.events) - count(rows, job.state.events)
            state.change(rows, new_rows, new_rows.clear(), open_change)
            after = state.end()
            dropped = tuple(sorted(before.files - after.files))
            return PartitionResult(report_of(0, open_change, after), after if after.parts else None, dropped)

        return read_slots, work_on_partitions(job, generation, manifests, edit)

    return tasks


def replaced_state(job: KeyedJob, generation: Generation, source: Generation, which: pl.Expr) -> Tasks:
    """Make the tasks of the batch that replaces rows of state by those of another generation with as many partitions.

    Args:
        which: which rows of either generation.
    """
    labels, splits, folder = partition_labels(generation.partitions), generation.splits, generation.parts
    others = read_manifests(source.manifests, files_of(source.journal.last_done()))
    source_folder = source.parts

    def tasks(plan: KeyedPlan, manifests: Any, handover: Handover) -> tuple[OnBatches, OnBatches]:
        batch = plan.batch

        def read_others(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
            if batch * splits in numbers:
                frames = (pl.DataFrame({"manifest": [others.get(label)]}, {"manifest": pl.Binary}) for label in labels)
                yield blobs(labels, [0] * len(labels), [handover.pack(frame) for frame in frames])

        def replace_rows(payloads: Sequence[tuple[int, Any]], before: Manifest | None) -> Emitted:
            yield from ()
            packed = handover.unpack(payloads[0][1])["manifest"].item()
            new = _rows_of(job, source_folder, Manifest.unpack(packed) if packed else None, which)
            old = _rows_of(job, folder, before, which)
            slots = union(distinct(old[SLOT].to_numpy()), distinct(new[SLOT].to_numpy()))
            if not slots.size:
                return PartitionResult(report_of(0, 0, before), before)
            state = PartitionState(job, folder, before, batch, SIZES)
            rows = state.rows(slots)
            after = pl.concat([rows.filter(~which), new.select(rows.columns)]).sort(SLOT, maintain_order=True)
            open_change = count(after, job.state.events) - count(rows, job.state.events)
            state.change(rows, after, after.clear(), open_change)
            manifest = state.end()
            dropped = tuple(sorted(before.files - manifest.files)) if before else ()
            return PartitionResult(report_of(0, open_change, manifest), manifest if manifest.parts else None, dropped)

        return read_others, work_on_partitions(job, generation, manifests, replace_rows)

    return tasks


def _rows_of(job: KeyedJob, folder: Place, manifest: Manifest | None, which: pl.Expr) -> pl.DataFrame:
    """Return some rows of a partition's state, with their `SLOT`, sorted by it."""
    none = empty(job.state.schema).with_columns(pl.Series(SLOT, [], pl.UInt64))
    reads = () if manifest is None else partition_reads(manifest, folder)
    return pl.concat([none, *(read().select(none.columns).filter(which) for read in reads)])


def _sequence(payload: tuple[int, Any]) -> int:
    return payload[0]
