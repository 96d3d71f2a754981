"""Plans a run: what is new in the event table, cut into slices of time, and the clock of each."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from keyfold.journal.clock import Reading, go_on, too_short
from keyfold.keyed.contract import KeyedJob
from keyfold.keyed.event_time import (
    BoundsOfTime,
    EventTime,
    Instant,
    end_of,
    newest_that_came,
    waits_for_others,
)
from keyfold.keyed.inputs import changes_for
from keyfold.keyed.records import ClockRecord, KeyedDone, KeyedPlan, PlannedFile, TableInput
from keyfold.keyed.slices import Slice, cut, cuts_through
from keyfold.lakehouse.changes import Changes
from keyfold.storage.place import Place
from keyfold.times import in_utc, micros, shifted

_SCATTERED = 3.0

_FAR_AHEAD = timedelta(days=366)
"""By so much event time may be ahead of the clock without a warning: a test, or a year's windows closed by hand."""


@dataclass(frozen=True)
class RunBounds:
    """What a run is asked for.

    Attributes:
        max_bytes: of event files in a batch.
        since, until: the span of event time that it reads.
        advance_to: event time that is taken as reached once the new events are in.
    """

    max_bytes: int
    since: datetime | None = None
    until: datetime | None = None
    advance_to: datetime | None = None


@dataclass(frozen=True)
class PlannedRun:
    """What a run will do.

    Attributes:
        plans: its batches; none where nothing came and nothing is due.
        clock: how far time has gone.
        warnings: what to say to people.
    """

    plans: tuple[KeyedPlan, ...]
    clock: ClockRecord
    warnings: tuple[str, ...] = ()


def plan_run(
    job: KeyedJob, table: Place, done: KeyedDone | None, clock: ClockRecord | None, now: Reading, wanted: RunBounds
) -> PlannedRun:
    """Plan a run that begins where the last batch, and the time since, have ended.

    Args:
        job: what runs.
        table: its event table.
        done: the last batch.
        clock: how far time has gone since.
        now: what the machine's clocks say.
        wanted: what the run is asked for.

    Raises:
        KeyfoldError: what the job has read of the event table can no longer be gone on from; names the remedy.
    """
    name = f"events.{job.stream.name}"
    reading, jump = go_on(clock.reading if clock else None, now)
    # Never back, even where the machine's clock was: what was stale stays stale. The last batch's too, which a crash may
    # have cut off from the record of the clock.
    known = [one.processing_time for one in (clock, done) if one is not None and one.processing_time is not None]
    processing_time = max([reading.time, *known])
    position = done.positions.get(name) if done else None
    changes = changes_for(job, table, position)
    before = EventTime(job, done, clock, processing_time)
    slices = cut(changes.files, wanted.max_bytes, micros(before.watermark), *_span(wanted))
    come = [one for one in slices if one.files]
    warnings = [
        jump,
        too_short(job.idle_after, [*(done.arrivals if done else ()), *([processing_time] if come else [])]),
    ]
    if before.watermark > shifted(processing_time, _FAR_AHEAD):
        warnings.append(
            f"event time of job {job.name} was moved to {before.watermark:%Y-%m-%d}, and never goes back: what comes before "
            "then is late; to read it all anew, start a new generation with --full-refresh"
        )
    if cuts_through(come) > _SCATTERED:
        warnings.append(
            f"the files of {name} each span much of the time that is read, and are read {cuts_through(come):.1f} times: "
            f"run maintenance, which joins neighbours in time"
        )
    span = BoundsOfTime(wanted.until, wanted.advance_to)
    came = newest_that_came(job, table, come)
    clocks = before.through(come, came, span) if come else before.tick(span)
    final = clocks[-1]
    warnings.append(waits_for_others(job, came, final))
    # From the commit record alone: a run for which nothing came and nothing is due starts no Spark.
    is_due = done is not None and (
        (done.next_deadline is not None and done.next_deadline <= final.clock.watermark)
        or (done.next_stale_at is not None and done.next_stale_at <= processing_time)
    )
    plans = _plans(done, changes, slices, clocks, reading, name, wanted) if come or is_due else ()
    reached = ClockRecord(watermark=final.clock.watermark, processing_time=processing_time, reading=reading)
    return PlannedRun(plans, reached, tuple(warning for warning in warnings if warning))


def _plans(
    done: KeyedDone | None,
    changes: Changes,
    slices: tuple[Slice, ...],
    clocks: list[Instant],
    reading: Reading,
    table: str,
    wanted: RunBounds,
) -> tuple[KeyedPlan, ...]:
    first = done.batch + 1 if done else 0
    total = sum(one.rows for one in slices)
    plans: list[KeyedPlan] = []
    rows_before = 0
    bounds = [wanted.since, *(end_of(one) for one in slices[:-1]), wanted.until]
    for number, (one, at) in enumerate(zip(slices, clocks, strict=True)):
        files = tuple(
            PlannedFile(path=file.path, rows=file.rows, bytes=file.bytes, whole=whole) for file, whole in one.files
        )
        plans.append(
            KeyedPlan(
                batch=first + number,
                run=first,
                batches=len(slices),
                planned_at=reading.wall,
                inputs=(TableInput(table=table, position=changes.position, files=files),),
                since=bounds[number],
                until=bounds[number + 1],
                clock=at.clock,
                newest=at.newest,
                arrived_at=at.arrived_at,
                stands_in=at.stands_in,
                reading=reading,
                rows_before=rows_before,
                rows=one.rows,
                rows_of_run=total,
            )
        )
        rows_before += one.rows
    return tuple(plans)


def _span(wanted: RunBounds) -> tuple[int | None, int | None]:
    """What is read, in microseconds."""
    since, until = (None if bound is None else micros(in_utc(bound)) for bound in (wanted.since, wanted.until))
    return since, until
