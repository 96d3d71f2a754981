"""Call the job's step for one state partition and batch, with the state of the keys that are needed.

Keys with events or a due timer are needed. Their rows are read from the partition's parts (`state_parts`), for calls of bounded size.
`work` calls the operator in a task.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from keyfold.errors import Damaged, StepFailed
from keyfold.keyed.calling.calls_in_order import call_step
from keyfold.keyed.calling.slots import (
    SLOT,
    Slots,
    are_among,
    distinct,
    key_groups_of,
    slots_of,
    stable_order,
    union,
)
from keyfold.keyed.calling.step_call import Called, count, refuse_other_keys
from keyfold.keyed.execution.blobs import CLOCK, BatchClock, Handover, PartitionReport, report_of
from keyfold.keyed.execution.failing_event import AskedError, NoResponses, described_event, failing_event
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.event_frames import counts_by_input
from keyfold.keyed.job.lookups import planned_lookups
from keyfold.keyed.job.step import Clock
from keyfold.keyed.rows.codec import AnswerError, empty
from keyfold.keyed.rows.response_cache import ResponsesInFiles
from keyfold.keyed.state_parts.manifest import NEVER, Manifest
from keyfold.keyed.state_parts.part_rows import SIZES
from keyfold.keyed.state_parts.partition_state import PartitionState
from keyfold.privacy import describe_error, errors_without_values, masked
from keyfold.storage.place import Place
from keyfold.times import from_micros

_ROWS_A_CALL = 128_000
"""Approximate number of rows of events and state in a call of the step."""


class StepError(StepFailed):
    """A job's step raised; names the job, the key group and a sample key. `MARK` is found in a runner's error."""

    MARK = "keyfold step failed: "


class PartitionResult(NamedTuple):
    """The result of a state partition in a batch.

    Attributes:
        report: its report.
        manifest: the manifest of its state after the batch; None without state.
        dropped: files of parts that the state no longer needs.
    """

    report: PartitionReport
    manifest: Manifest | None
    dropped: tuple[str, ...] = ()


Emitted = Generator[tuple[str, pl.DataFrame], None, PartitionResult]
"""Rows of a state partition for tables, by the table's name, and the partition's result."""

WorkOnPartition = Callable[[Sequence[tuple[int, Any]], Manifest | None], Emitted]
"""Works on a state partition, given `sequence` and `payload` of its blobs, and the manifest of its state; None without state."""


class PartitionOperator:
    """Calls a job's step for one state partition at a time, with its events, the rows of their keys, and the clock.

    Args:
        responses: folder of stored responses of external services, with a folder for each batch.
        parts: folder of state parts.
        handover: makes rows of payloads.
    """

    def __init__(self, job: KeyedJob, responses: Place, parts: Place, handover: Handover) -> None:
        self._job, self._responses, self._parts, self._handover = job, responses, parts, handover

    def call(self, rows: Sequence[tuple[int, Any]], old: Manifest | None) -> Emitted:
        """Process the blobs of a partition; yields rows for tables, and returns the partition's result.

        Args:
            rows: `sequence` and `payload` of `blobs.BLOBS`.
            old: the manifest of the partition's state; None without state.

        Raises:
            StepError: the step raised, or its result does not fit the declarations.
            Damaged: the state cannot be read.
        """
        clock, blobs = BatchClock(0, 0, 0, 0), []
        for sequence, payload in rows:
            if sequence == CLOCK:
                clock = BatchClock.unpack(bytes(payload))
            else:
                blobs.append((sequence, payload))
        job = self._job
        with errors_without_values(f"job {job.name}", job.private), self._damage_explained():
            # In the order of the plan, and not in that of the tasks' ends: a repeated batch must return the same rows.
            blobs.sort(key=lambda blob: blob[0])
            return (yield from self._advance([payload for _, payload in blobs], clock, old))

    def _advance(self, payloads: list[bytes], clock: BatchClock, old: Manifest | None) -> Emitted:
        job = self._job
        deadline, processing_deadline = old.timers if old else (NEVER, NEVER)
        # Do not open its parts: the cost of an idle batch must not depend on the size of the state.
        if not payloads and deadline > clock.watermark and processing_deadline > clock.processing_time:
            return PartitionResult(report_of(0, 0, old), old)
        state = PartitionState(job, self._parts, old, clock.batch, SIZES)
        events = pl.concat(map(self._handover.unpack, payloads), rechunk=True) if payloads else empty(job.columns)
        slots = slots_of(job, events)
        # Stable, so that a repeated batch passes the events of a key in the same order.
        order = stable_order(slots)
        sorted_events = _Sorted(events, order, slots[order])
        due = state.due(clock.watermark, clock.processing_time)
        now, written_events = self._clock(clock), 0
        for needed in _calls(union(distinct(sorted_events.slots), due), sorted_events.slots, _rows_a_slot(old)):
            stored, came = state.rows(needed), sorted_events.of(needed)
            called, placed = self._call(needed, stored.drop(SLOT), came, now)
            yield from called.tables.items()
            written_events += called.written_events
            before, after, added = _changes(job, called, placed, stored, due)
            change = count(after, job.state.events) - count(before, job.state.events)
            state.change(before, after, added, change + count(added, job.state.events))
        new = state.end()
        # Reported and not deleted: the state of the last batches stays readable, and refers to these files (`forget`).
        dropped = sorted(old.files - new.files) if old else []
        by_input = counts_by_input(job.inputs, events)
        open_change = new.open_events - (old.open_events if old else 0)
        report = report_of(count(events, job.events), open_change, new, by_input)
        report = report._replace(written_events=written_events)
        return PartitionResult(report, new if new.parts else None, tuple(dropped))

    def _call(
        self, needed: Slots, state: pl.DataFrame, events: pl.DataFrame, clock: Clock
    ) -> tuple[Called, pl.DataFrame]:
        """Call the step; returns its result, and its rows of state with their slots, sorted by them."""
        job = self._job
        with self._step_explained(state, events, clock):
            called = call_step(job, state, events, clock)
            placed = _placed(job, called.state, needed)
            if called.dropped is not None:
                _placed(job, called.dropped, needed)
        return called, placed

    @contextmanager
    def _step_explained(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Iterator[None]:
        job = self._job
        try:
            yield
        except Exception as error:
            sample = next((frame.head(1) for frame in (events, state) if frame.height), None)
            group, key = "none", "none"
            if sample is not None:
                group = str(key_groups_of(slots_of(job, sample))[0])
                key = str(masked(sample.select(job.key), job.private).row(0, named=True))
            # A wrong answer is the fault of the step, whatever the event.
            failing = "" if isinstance(error, AnswerError) else self._failing_event(state, events, clock)
            # With private columns, drop the cause: Spark's and Dagster's logs show all causes of an error.
            raise StepError(
                f"{StepError.MARK}job {job.name}, key group {group}, a key of it {key}: {describe_error(error, job.private)}{failing}"
            ) from (None if job.private else error)

    def _failing_event(self, state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> str:
        job, asks_nobody = self._job, replace(clock, responses=NoResponses())

        def fails(some: pl.DataFrame) -> bool:
            try:
                call_step(job, state.join(some.select(job.key), on=job.key, how="semi"), some, asks_nobody)
            except AskedError:
                raise
            except Exception:  # a step may raise anything; its own error is raised by the caller
                return True
            return False

        event = failing_event(fails, events)
        return "" if event is None else f"; {described_event(job, event)}"

    def _clock(self, clock: BatchClock) -> Clock:
        previous_watermark, watermark, processing_time = map(from_micros, clock[1:4])
        responses = ResponsesInFiles(self._responses / f"{clock.batch:09d}")
        watermarks = dict(zip(self._job.inputs, map(from_micros, clock.watermarks), strict=True))
        # The driver has stored the lookups in the generation's folder.
        lookups = planned_lookups(self._responses.parent, clock.lookups)
        return Clock(previous_watermark, watermark, processing_time, responses, watermarks, lookups)

    @contextmanager
    def _damage_explained(self) -> Iterator[None]:
        try:
            yield
        except Damaged as error:
            raise Damaged(
                f"job {self._job.name}: {error}; restore it from a backup, or start a new generation with --full-refresh"
            ) from error


def _changes(
    job: KeyedJob, called: Called, placed: pl.DataFrame, stored: pl.DataFrame, due: Slots
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the changes of state by a step: rows that are replaced, their replacements, and rows that are added."""
    if called.dropped is None:
        return stored, placed, placed.clear()
    # Write due rows again, even if they are unchanged: parts do not track timers that have passed.
    rewritten = union(distinct(np.sort(slots_of(job, called.dropped))), due)
    before = stored.filter(are_among(stored[SLOT].to_numpy(), rewritten))
    is_after = are_among(placed[SLOT].to_numpy(), rewritten)
    after = called._replace(state=placed.filter(is_after)).state_after(job, before)
    return before, after.sort(SLOT, maintain_order=True), placed.filter(~is_after)


def _placed(job: KeyedJob, rows: pl.DataFrame, needed: Slots) -> pl.DataFrame:
    """Add slots to rows that a step returned, and sort by them.

    Raises:
        AnswerError: some rows have keys that were not passed to the step.
    """
    slots = slots_of(job, rows)
    # A stable sort keeps the step's order of a key's rows: the next call gets them in that order.
    order = stable_order(slots)
    placed = rows[order].with_columns(pl.Series(SLOT, slots[order]))
    strange = ~are_among(placed[SLOT].to_numpy(), needed)
    if strange.any():
        refuse_other_keys(job, placed.filter(strange))
    return placed


class _Sorted(NamedTuple):
    """The events of a batch, the order that sorts them by slot, and the sorted slots."""

    events: pl.DataFrame
    order: np.ndarray
    slots: np.ndarray

    def of(self, needed: Slots) -> pl.DataFrame:
        """Return the events from the first of some slots to the last, sorted by slot."""
        # Unsigned like the slots: NumPy would add signed numbers as floats, which lose the last bits of a slot.
        first, last = np.searchsorted(self.slots, needed[[0, -1]] + np.array([0, 1], np.uint64))
        # Sort the rows of one call at a time: a sorted copy of all events would double the memory of a large batch.
        return self.events[self.order[first:last]]


def _calls(needed: Slots, slots: np.ndarray, rows_a_slot: float) -> Iterator[Slots]:
    """Divide the needed slots into calls of the step.

    Args:
        needed: slots with events or a due timer.
        slots: slots of the events, sorted.
        rows_a_slot: estimated number of rows of state per slot.
    """
    if not needed.size:
        return
    # Up to each slot: the events so far, and the estimated rows of state.
    rows = np.searchsorted(slots, needed, side="right") + rows_a_slot * np.arange(1, needed.size + 1)
    number = (rows // _ROWS_A_CALL).astype(np.int64)
    yield from np.split(needed, np.flatnonzero(np.diff(number)) + 1)


def _rows_a_slot(state: Manifest | None) -> float:
    if state is None:
        return 0.0
    # Most changes are of slots in the base, and may add rows to them: count all rows, but only the base's slots.
    return sum(part.rows for part in state.parts) / max(1, sum(part.slots for part in state.base))
