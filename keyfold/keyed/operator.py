"""The keyed operator: one call of the job's step for each key group and batch, with all that the group has.

A key group has one blob of state and beside it, small and apart, its earliest timers: a batch that has nothing for a
group reads these alone. `processor` is what Spark knows of this.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ValueState

from keyfold.errors import StepFailed
from keyfold.keyed.answers import AnswersInFiles
from keyfold.keyed.codec import decode, empty, encode
from keyfold.keyed.contract import DEADLINE, STALE_AT, Clock, KeyedJob
from keyfold.keyed.read import CLOCK, SEED, BatchClock
from keyfold.keyed.step_call import Called, call_step, count, no_state
from keyfold.privacy import describe_error, errors_without_values, masked
from keyfold.storage.place import Place
from keyfold.times import from_micros

REPORT = "#report"
"""Pseudo table of the emitted rows that report what became of a key group; see `GroupReport`."""

NEVER = 2**63 - 1
"""The timer of what has none."""

_MOST_STATE = 1 << 30


class StepError(StepFailed):
    """A job's step raised; names the job, the key group and a sample key. Marked so the runner finds it in Spark's."""

    MARK = "keyfold step failed: "


class GroupReport(NamedTuple):
    """What a key group reports of a batch: events that came, change of open events, earliest timers."""

    events: int
    open_change: int
    deadline: int
    stale_at: int

    def pack(self) -> bytes:
        """As bytes."""
        return _REPORT.pack(*self)

    @classmethod
    def unpack(cls, payload: bytes) -> "GroupReport":
        """From `pack`."""
        return cls(*_REPORT.unpack(payload))

    def __add__(self, other: "GroupReport") -> "GroupReport":  # type: ignore[override]
        return GroupReport(
            self.events + other.events,
            self.open_change + other.open_change,
            min(self.deadline, other.deadline),
            min(self.stale_at, other.stale_at),
        )


_REPORT = struct.Struct("<qqqq")


class KeyGroupOperator:
    """Runs a job's step on one key group at a time, with its events, its kept rows and the clock.

    Args:
        job: the job.
        answers: the folder of answers from outside, one folder a batch.
        timers, state: where a group's timers and its blob are kept: values of the group that is at work.
    """

    def __init__(self, job: KeyedJob, answers: Place, timers: ValueState, state: ValueState) -> None:
        self._job, self._answers, self._timers, self._state = job, answers, timers, state
        self._timers_of = [column for column in (DEADLINE, STALE_AT) if column in job.state.names]

    def call(self, group: int, rows: Iterator[Any]) -> Iterator[Row]:
        """Work on a group's rows of `read.BLOBS`; gives rows of `EMITTED`.

        Raises:
            StepError: the step raised, gave back something else than it declared, or keeps too much.
        """
        clock, blobs, seeds = BatchClock(0, 0, 0, 0), [], []
        for row in rows:
            if row.sequence == CLOCK:
                clock = BatchClock.unpack(bytes(row.payload))
            else:
                (seeds if row.sequence <= SEED else blobs).append((row.sequence, row.payload))
        if seeds:
            # Seeds count down from `SEED`.
            seeds.sort(key=lambda blob: -blob[0])
            yield self._begin(group, pl.concat([decode(payload) for _, payload in seeds], rechunk=True))
            return
        # In the order of the plan, however tasks ended: a batch that is worked on again gives the same rows.
        blobs.sort(key=lambda blob: blob[0])
        with errors_without_values(f"job {self._job.name}, key group {group}", self._job.private):
            yield from self._advance(group, [payload for _, payload in blobs], clock)

    def _advance(self, group: int, payloads: list[bytes], clock: BatchClock) -> Iterator[Row]:
        job = self._job
        kept = self._timers.get()
        _, deadline, stale_at, open_before = kept or (0, NEVER, NEVER, 0)
        is_due = deadline <= clock.watermark or stale_at <= clock.processing_time
        # Its state is not even read: an idle batch of 64 groups costs as much with a million rows as with none.
        if not payloads and not is_due:
            yield Row(table=REPORT, payload=GroupReport(0, 0, deadline, stale_at).pack())
            return
        # Both are written together: without timers there is no state, and Spark warns of each look at what is not
        # there.
        stored = self._state.get() if kept else None
        state = decode(stored[0]) if stored else no_state(job)
        events = pl.concat([decode(payload) for payload in payloads], rechunk=True) if payloads else empty(job.events)
        called = self._call(group, state, events, clock)
        for table, frame in called.tables.items():
            yield Row(table=table, payload=encode(frame))
        open_now = count(called.state, job.state_events)
        timers = self._earliest(called.state)
        came = count(events, job.event_count)
        yield Row(table=REPORT, payload=GroupReport(came, open_now - open_before, *timers).pack())
        if called.state.height:
            self._keep(group, called.state, timers, open_now)
        # Only where there is something: each call of Spark's state is a round trip to Java.
        elif kept:
            self._state.clear()
            self._timers.clear()

    def _begin(self, group: int, state: pl.DataFrame) -> Row:
        """Take in the state that the group begins with; what is due of it is for the next batch."""
        open_now, timers = count(state, self._job.state_events), self._earliest(state)
        self._keep(group, state, timers, open_now)
        return Row(table=REPORT, payload=GroupReport(0, open_now, *timers).pack())

    def _keep(self, group: int, state: pl.DataFrame, timers: tuple[int, int], open_now: int) -> None:
        job, blob = self._job, encode(state)
        if len(blob) > _MOST_STATE:
            raise StepError(
                f"{StepError.MARK}job {job.name}, key group {group}: its state is {len(blob) >> 20:,} MiB, more than "
                f"one value can be; give the job more key_groups than {job.key_groups} (with --full-refresh)"
            )
        self._state.update((blob,))
        self._timers.update((job.schema_version, *timers, open_now))

    def _call(self, group: int, state: pl.DataFrame, events: pl.DataFrame, clock: BatchClock) -> Called:
        job = self._job
        try:
            return call_step(job, state, events, self._clock(clock))
        except Exception as error:
            sample = next((frame for frame in (events, state) if frame.height), None)
            shown = None if sample is None else masked(sample.head(1).select(job.key), job.private)
            key = "none" if shown is None else shown.row(0, named=True)
            # Of a private stream without its cause: Spark's log and Dagster's tell all causes of an error.
            raise StepError(
                f"{StepError.MARK}job {job.name}, key group {group}, a key of it {key}: {describe_error(error, job.private)}"
            ) from (None if job.private else error)

    def _clock(self, clock: BatchClock) -> Clock:
        late_watermark, watermark, processing_time = map(from_micros, clock[1:])
        answers = AnswersInFiles(self._answers / f"{clock.batch:09d}")
        return Clock(late_watermark, watermark, processing_time, answers)

    def _earliest(self, state: pl.DataFrame) -> tuple[int, int]:
        """The earliest deadline and stale_at, in microseconds; `NEVER` where there is none."""
        found = {column: state[column].to_physical().min() for column in self._timers_of}
        earliest = (found.get(column) for column in (DEADLINE, STALE_AT))
        deadline, stale_at = (NEVER if one is None else int(one) for one in earliest)  # type: ignore[arg-type]
        return deadline, stale_at
