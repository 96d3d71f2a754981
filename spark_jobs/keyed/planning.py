"""Plans a run: what is new in the event table, cut into slices of time, and the clock of each."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spark_jobs.errors import KeyfoldError
from spark_jobs.journal.clock import BEGINNING, Reading, Silence, go_on, silent_event_time, too_short
from spark_jobs.keyed.contract import KeyedJob
from spark_jobs.keyed.records import ClockRecord, KeyedDone, KeyedPlan, PlannedClock, PlannedFile, TableInput
from spark_jobs.keyed.slices import Slice, cut, cuts_through
from spark_jobs.lakehouse.changes import Changes, LogGoneError, RowsChangedError, changes_since, snapshot
from spark_jobs.times import EPOCH, micros

_MILLISECOND = timedelta(milliseconds=1)
_SCATTERED = 3.0


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
    job: KeyedJob, table: Path, done: KeyedDone | None, clock: ClockRecord | None, now: Reading, wanted: RunBounds
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
    name = f"events.{job.stream}"
    reading, jump = go_on(clock.reading if clock else None, now)
    # Never back, even where the machine's clock was: what was stale stays stale. The last batch's too, which a crash may
    # have cut off from the record of the clock.
    known = [one.processing_time for one in (clock, done) if one is not None and one.processing_time is not None]
    processing_time = max([reading.time, *known])
    position = done.positions.get(name) if done else None
    changes = _changes(job, table, position)
    before = _Time(job, done, clock, processing_time)
    slices = cut(changes.files, wanted.max_bytes, micros(before.watermark) // 1000, *_span(wanted))
    come = [one for one in slices if one.files]
    warnings = [
        jump,
        too_short(job.idle_after, [*(done.arrivals if done else ()), *([processing_time] if come else [])]),
    ]
    if cuts_through(come) > _SCATTERED:
        warnings.append(
            f"the files of {name} each span much of the time that is read, and are read {cuts_through(come):.1f} times: "
            f"run maintenance, which joins neighbours in time"
        )
    clocks = before.through(come, wanted) if come else before.tick(wanted)
    final = clocks[-1]
    # From the done record alone: a run for which nothing came and nothing is due starts no Spark.
    is_due = done is not None and (
        (done.next_deadline is not None and done.next_deadline <= final.clock.watermark)
        or (done.next_stale_at is not None and done.next_stale_at <= processing_time)
    )
    plans = _plans(done, changes, slices, clocks, reading, name, wanted) if come or is_due else ()
    reached = ClockRecord(watermark=final.clock.watermark, processing_time=processing_time, reading=reading)
    return PlannedRun(plans, reached, tuple(warning for warning in warnings if warning))


def _changes(job: KeyedJob, table: Path, position: int | None) -> Changes:
    remedy = "see that the event table is right, then start a new generation with --full-refresh"
    try:
        time = job.stored_time
        return snapshot(table, time) if position is None else changes_since(table, position, time)
    except RowsChangedError as error:
        raise KeyfoldError(
            f"job {job.name}: rows of events.{job.stream} were changed or deleted by other than ingest, after it had "
            f"begun to read them ({error}), and what they had led to cannot be taken back one by one; {remedy}"
        ) from None
    except LogGoneError as error:
        raise KeyfoldError(
            f"job {job.name} cannot tell what is new in events.{job.stream}: {error} (a restored backup, or a log that was "
            f"cleaned up before the job ran?); {remedy}"
        ) from None


@dataclass(frozen=True)
class _Instant:
    """The clock of a batch, and what is known of the stream by then."""

    clock: PlannedClock
    newest: datetime | None
    arrived_at: datetime | None


class _Time:
    """Where event time stands as a run begins, and how the run moves it.

    Attributes:
        watermark: that the run begins with.
    """

    def __init__(
        self, job: KeyedJob, done: KeyedDone | None, clock: ClockRecord | None, processing_time: datetime
    ) -> None:
        self._job, self._processing_time = job, processing_time
        self._newest = done.newest if done else None
        self._arrived_at = done.arrived_at if done else None
        reached = [one.watermark for one in (done, clock) if one is not None]
        self.watermark = max(reached, default=BEGINNING)

    def through(self, slices: list[Slice], wanted: RunBounds) -> list[_Instant]:
        """The clocks of a run that reads these slices.

        Up to the last slice the watermark stays behind whatever is still to come, by the job's delay; the run's end is
        the newest event's, whatever the slices were.
        """
        found: list[_Instant] = []
        watermark = self.watermark
        for one in slices[:-1]:
            late_watermark = watermark
            # Up to the slice's end, less what rounds: an event at that very moment is of the next slice.
            until = _from_milliseconds(one.until)
            newest = _latest(self._newest, until - _MILLISECOND)
            watermark = max(late_watermark, self._behind(until - _MILLISECOND))
            found.append(self._at(late_watermark, watermark, newest))
        newest = _latest(self._newest, max(_from_milliseconds(file.last) for one in slices for file, _ in one.files))
        if wanted.until is not None:
            # What lies past the range is read by nobody, and must not move the clock.
            newest = min(newest, wanted.until - _MILLISECOND)
        late_watermark, watermark = watermark, max(watermark, self._behind(newest))
        by = ""
        if wanted.advance_to is not None and wanted.advance_to > watermark:
            watermark, by = wanted.advance_to, "advance_to"
        return [*found, self._at(late_watermark, watermark, newest, by)]

    def tick(self, wanted: RunBounds) -> list[_Instant]:
        """The clock of a run that nothing came for."""
        watermark, by = self.watermark, ""
        silence = Silence(self._newest, self._arrived_at) if self._newest and self._arrived_at else None
        # What event time has reached lies the delay ahead of the watermark.
        reached = None if silence is None else self.watermark + self._job.watermark_delay
        silent = silent_event_time(silence, self._processing_time, self._job.idle_after, reached)
        if silent is not None and self._behind(silent) > watermark:
            watermark, by = self._behind(silent), "silence"
        if wanted.advance_to is not None and wanted.advance_to > watermark:
            watermark, by = wanted.advance_to, "advance_to"
        clock = PlannedClock(
            late_watermark=self.watermark, watermark=watermark, processing_time=self._processing_time, advanced_by=by
        )
        return [_Instant(clock, self._newest, self._arrived_at)]

    def _behind(self, event_time: datetime) -> datetime:
        """The watermark that an event time leads to."""
        delay = self._job.watermark_delay
        # No date lies before the year 1: subtracting would fail for the earliest events.
        return event_time - delay if event_time - BEGINNING > delay else BEGINNING

    def _at(self, late_watermark: datetime, watermark: datetime, newest: datetime, by: str = "") -> _Instant:
        clock = PlannedClock(
            late_watermark=late_watermark, watermark=watermark, processing_time=self._processing_time, advanced_by=by
        )
        return _Instant(clock, newest, self._processing_time)


def _plans(
    done: KeyedDone | None,
    changes: Changes,
    slices: tuple[Slice, ...],
    clocks: list[_Instant],
    reading: Reading,
    table: str,
    wanted: RunBounds,
) -> tuple[KeyedPlan, ...]:
    first = done.batch + 1 if done else 0
    total = sum(one.rows for one in slices)
    plans: list[KeyedPlan] = []
    rows_before = 0
    bounds = [wanted.since, *(_from_milliseconds(one.until) for one in slices[:-1]), wanted.until]
    # Files count as whole by their spans in whole milliseconds; a bound in between cuts through such a file unseen.
    is_exact = all(bound is None or micros(bound) % 1000 == 0 for bound in (wanted.since, wanted.until))
    for number, (one, at) in enumerate(zip(slices, clocks, strict=True)):
        files = tuple(
            PlannedFile(path=file.path, rows=file.rows, bytes=file.bytes, whole=whole and is_exact)
            for file, whole in one.files
        )
        plans.append(
            KeyedPlan(
                batch=first + number,
                run=first,
                batches=len(slices),
                planned_at=reading.wall,
                inputs=(TableInput(table=table, version=changes.version, files=files),),
                since=bounds[number],
                until=bounds[number + 1],
                clock=at.clock,
                newest=at.newest,
                arrived_at=at.arrived_at,
                reading=reading,
                rows_before=rows_before,
                rows=one.rows,
                rows_of_run=total,
            )
        )
        rows_before += one.rows
    return tuple(plans)


def _latest(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else max(one, other)


def _from_milliseconds(milliseconds: int | None) -> datetime:
    assert milliseconds is not None  # noqa: S101 - bounds between slices, and the spans of files with rows, are times
    return EPOCH + timedelta(milliseconds=milliseconds)


def _span(wanted: RunBounds) -> tuple[int | None, int | None]:
    """What is read, in whole milliseconds: widened to them, since rows are looked at one by one at the ends."""
    since = None if wanted.since is None else micros(wanted.since.astimezone(UTC)) // 1000
    until = None if wanted.until is None else -(-micros(wanted.until.astimezone(UTC)) // 1000)
    return since, until
