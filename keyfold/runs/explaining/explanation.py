"""What `explain` answers, in plain values, private ones masked, so that it is printed, or is JSON as it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ExplainedEvent:
    """An event of the key.

    Attributes:
        input: the input that it is of.
        time: its time, by which the job goes.
        arrived_at: when it was ingested; None where the table does not say it.
        source: the landing file that it came from, as far as the journal of ingest still knows it: several, if they were ingested
            together.
        is_late: whether it came late.
        final_at: when its result is final, as the input declares it; None where the step decides.
        late_by: of a late one, how far the watermark before its batch was past `final_at`, or past its own time where the step decides.
            An event is late from zero on.
        values: its values, without the key.
    """

    input: str
    time: datetime
    arrived_at: datetime | None
    source: str
    is_late: bool
    final_at: datetime | None
    late_by: timedelta | None
    values: Row


@dataclass(frozen=True)
class ExplainedBatch:
    """A batch that called the step for the key, or changed its state otherwise.

    Attributes:
        generation, batch: which one.
        ran_at: processing time of the batch.
        runner: where it ran.
        previous_watermark, watermark: the watermark before and after it; None before any event.
        advanced_by: what advanced event time, if events did not: `silence` or `advance_to`.
        new_code: what had changed in the code of the job's functions.
        changed_state: what changed its state, if it was no run: an edit, or the state that a generation began with.
        events: the events of the key that it read.
        timers: the timers that were due, each with its time.
        lookups: rows of lookups that have the key's columns, or their number.
        state_before, state_after: rows of state of the key.
        rows: the rows that it wrote, by table, without the late events.
    """

    generation: str
    batch: int
    ran_at: datetime
    runner: str
    previous_watermark: datetime | None
    watermark: datetime | None
    advanced_by: str
    new_code: str
    changed_state: str
    events: tuple[ExplainedEvent, ...]
    timers: tuple[tuple[str, datetime], ...]
    lookups: Mapping[str, Any]
    state_before: tuple[Row, ...]
    state_after: tuple[Row, ...]
    rows: Mapping[str, tuple[Row, ...]]


@dataclass(frozen=True)
class Difference:
    """How a table, or the state, differs from the replay.

    Attributes:
        table: the table, or `state`.
        stored: rows that are stored, and that the replay has not.
        replayed: rows that the replay has, and that are not stored.
    """

    table: str
    stored: tuple[Row, ...]
    replayed: tuple[Row, ...]


@dataclass(frozen=True)
class Explanation:
    """Why a table has the rows of a key that it has.

    Attributes:
        table, job, key: what is explained.
        generation: the live generation.
        parameters: its parameters.
        watermark: the watermark now; None before any event.
        row: the number of the row that is explained, from 1; None for all.
        answer: the answer in a sentence.
        rows: the rows of the key that the table has.
        batches: the timeline, oldest first.
        waiting: events that no run has read yet.
        left_out: rows of the key that are not read, since the condition of their input (`where`) is not true.
        quarantined: lines in quarantine that have the key, with why.
        is_equal: whether the replay gave exactly what is stored; None if the step could not be played.
        differences: where it did not.
        reasons: what may be why, from the journal.
        notes: what else to know of the replay.
        upstream: explanations of the rows of other jobs that are events of this key.
    """

    table: str
    job: str
    key: Row
    generation: str
    parameters: Row
    watermark: datetime | None
    row: int | None
    answer: str
    rows: tuple[Row, ...]
    batches: tuple[ExplainedBatch, ...]
    waiting: tuple[ExplainedEvent, ...] = ()
    left_out: int = 0
    quarantined: tuple[Row, ...] = ()
    is_equal: bool | None = None
    differences: tuple[Difference, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    upstream: tuple["Explanation", ...] = ()

    def __str__(self) -> str:
        # Not above: the text is made of these values.
        from keyfold.runs.explaining.text import explanation_text  # noqa: PLC0415

        return explanation_text(self)

    @property
    def events(self) -> tuple[ExplainedEvent, ...]:
        """All events of the key that runs have read, in the order of the timeline."""
        return tuple(event for batch in self.batches for event in batch.events)
