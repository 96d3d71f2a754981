"""Plan a run: find the new files of its input tables, cut them into slices of event time, and set the clock of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from keyfold.journal.clock import Reading, idle_timeout_warning, ignore_jumps
from keyfold.keyed.generation.batch_records import ClockRecord, KeyedDone, KeyedPlan, PlannedFile, TableInput
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.plans.event_time import (
    BoundsOfTime,
    EventTime,
    Instant,
    NewestTimes,
    end_of,
    newest_times,
    waits_for_others,
)
from keyfold.keyed.plans.input_tables import changes_for, changes_until
from keyfold.keyed.plans.slices import Slice, cut, cuts_through
from keyfold.keyed.rows.key_share import KeyShare
from keyfold.lakehouse.log_changes import Changes
from keyfold.lakehouse.positions import Position
from keyfold.storage.place import Place
from keyfold.times import from_micros, in_utc, micros, shifted

_SCATTERED = 3.0
"""A warning is given if files are read more often than this on average."""

_FAR_AHEAD = timedelta(days=366)
"""Event time may be ahead of the clock by this much without a warning: for tests, or to close a year's windows."""


@dataclass(frozen=True)
class RunBounds:
    """Bounds of a run.

    Attributes:
        max_bytes: bytes of event files in a batch, at most.
        since, until: the span of event time that it reads.
        advance_to: the watermark after the new events, at least.
        share: the keys whose events it reads; None for all.
        as_of: reads no row that another generation had not read at the end of this batch, and goes no further in event time.
    """

    max_bytes: int
    since: datetime | None = None
    until: datetime | None = None
    advance_to: datetime | None = None
    as_of: KeyedDone | None = None
    share: KeyShare | None = None


@dataclass(frozen=True)
class PlannedRun:
    """The plans of a run.

    Attributes:
        plans: its batches; none without new events and due timers.
        clock: the clock after the run.
        positions: the positions of the input tables that new rows were looked for up to, by name.
        warnings: warnings for people.
    """

    plans: tuple[KeyedPlan, ...]
    clock: ClockRecord
    positions: Mapping[str, Position]
    warnings: tuple[str, ...] = ()


def plan_run(
    job: KeyedJob,
    tables: Mapping[str, Place],
    done: KeyedDone | None,
    clock: ClockRecord | None,
    now: Reading,
    wanted: RunBounds,
    lookups: Mapping[str, str] = MappingProxyType({}),
    produced: Mapping[str, datetime] = MappingProxyType({}),
) -> PlannedRun:
    """Plan a run that continues after the last batch.

    Args:
        tables: the folders of its input tables, by name.
        done: the last commit record.
        clock: the clock record after it.
        now: the readings of the machine's clocks.
        wanted: bounds of the run.
        lookups: the stored file of each lookup (`lookups.KeptLookups`).
        produced: the watermark of the producer of each input that is a job's table (`input_tables.produced_until`).

    Raises:
        KeyfoldError: the new rows of a table cannot be determined; names the remedy.
    """
    # Processing time never goes back, even if the machine's clock does: timers that fired stay fired. The last batch counts
    # too, since a crash may have come before its clock record.
    known = [one.processing_time for one in (clock, done) if one is not None and one.processing_time is not None]
    reading, jump = ignore_jumps(clock.reading if clock else None, now, max(known, default=None))
    processing_time = max([reading.time, *known])
    changes = _changes(job, tables, done, wanted.as_of)
    before = EventTime(job, done, clock, processing_time, produced)
    files = [replace(file, input=name) for name, one in job.inputs.items() for file in changes[one.table].files]
    slices = cut(files, wanted.max_bytes, micros(before.watermark), *_span(wanted))
    filled = [one for one in slices if one.files]  # without new files there is one slice, which is empty
    warnings = [
        jump,
        idle_timeout_warning(
            job.idle_timeout, [*(done.arrivals if done else ()), *([processing_time] if filled else [])]
        ),
    ]
    if before.watermark > shifted(processing_time, _FAR_AHEAD):
        warnings.append(
            f"event time of job {job.name} was moved to {before.watermark:%Y-%m-%d}, and never goes back: events before that "
            "are late; to read all events again, start a new generation with --full-refresh"
        )
    if cuts_through(filled) > _SCATTERED:
        warnings.append(
            f"the files of {' and '.join(tables)} each span much of the time that is read, and are read "
            f"{cuts_through(filled):.1f} times: run maintenance, which clusters files by event time"
        )
    span = BoundsOfTime(wanted.until, wanted.advance_to)
    newest = _newest_times(job, tables, filled)
    clocks = before.through(filled, newest, span) if filled else before.tick(span)
    if wanted.advance_to is not None and wanted.as_of is not None:
        clocks = [_no_later(at, wanted.advance_to) for at in clocks]
    final = clocks[-1]
    for name, one in newest.items():
        declared = job.inputs[name]
        warnings += [
            waits_for_others(declared, one, final.times[name]),
            _idle_input_warning(before, name, declared, filled),
        ]
    # The commit record has the next timers, so a run without new events and due timers does not start Spark.
    is_due = done is not None and (
        (done.next_deadline is not None and done.next_deadline <= final.clock.watermark)
        or (done.next_processing_deadline is not None and done.next_processing_deadline <= processing_time)
    )
    plans = _plans(job, done, changes, slices, clocks, reading, wanted, lookups) if filled or is_due else ()
    reached = ClockRecord(watermark=final.clock.watermark, processing_time=processing_time, reading=reading)
    positions = {name: one.position for name, one in changes.items()}
    return PlannedRun(plans, reached, positions, tuple(warning for warning in warnings if warning))


def _changes(
    job: KeyedJob, tables: Mapping[str, Place], done: KeyedDone | None, as_of: KeyedDone | None
) -> dict[str, Changes]:
    """Find the new files of each table, once per table: two inputs of the same table must read the same version."""
    positions, inputs = done.positions if done else {}, {input_.table: input_ for input_ in job.inputs.values()}
    if as_of is not None:
        return {
            name: changes_until(job.name, input_, tables[name], as_of.positions[name])
            for name, input_ in inputs.items()
        }
    return {name: changes_for(job.name, input_, tables[name], positions.get(name)) for name, input_ in inputs.items()}


def _no_later(instant: Instant, watermark: datetime) -> Instant:
    """Return a clock that goes no further than a watermark."""
    clock = instant.clock
    times = {
        "previous_watermark": min(clock.previous_watermark, watermark),
        "watermark": min(clock.watermark, watermark),
    }
    return replace(instant, clock=clock.model_copy(update=times))


def _newest_times(job: KeyedJob, tables: Mapping[str, Place], filled: Sequence[Slice]) -> dict[str, NewestTimes]:
    """Return the newest event times of each input with new files."""
    newest: dict[str, NewestTimes] = {}
    for name, one in job.inputs.items():
        if files := [file for part in filled for file, _ in part.files if file.input == name]:
            newest[name] = newest_times(one, tables[one.table], files)
    return newest


def _idle_input_warning(before: EventTime, name: str, declared: Input, filled: Sequence[Slice]) -> str | None:
    """Warn if an idle input has new events that are late; None if not."""
    firsts = [file.first for one in filled for file, _ in one.files if file.input == name and file.first is not None]
    if not before.is_idle(name) or not firsts or min(firsts) > micros(before.watermark):
        return None
    return (
        f"input {name} brings events again, from {from_micros(min(firsts)):%Y-%m-%d %H:%M:%S} on; it was idle for longer "
        f"than its idle_timeout ({declared.idle_timeout}), and event time has advanced to "
        f"{before.watermark:%Y-%m-%d %H:%M:%S} without it: its events up to then are late"
    )


def _plans(
    job: KeyedJob,
    done: KeyedDone | None,
    changes: Mapping[str, Changes],
    slices: tuple[Slice, ...],
    clocks: list[Instant],
    reading: Reading,
    wanted: RunBounds,
    lookups: Mapping[str, str],
) -> tuple[KeyedPlan, ...]:
    first = done.batch + 1 if done else 0
    plans: list[KeyedPlan] = []
    # Neighbours share a bound, so that each event is in exactly one batch.
    bounds = [wanted.since, *(end_of(one) for one in slices[:-1]), wanted.until]
    for number, (one, at) in enumerate(zip(slices, clocks, strict=True)):
        plans.append(
            KeyedPlan(
                batch=first + number,
                run=first,
                batches=len(slices),
                planned_at=reading.wall,
                inputs=_inputs(job, changes, one),
                since=bounds[number],
                until=bounds[number + 1],
                clock=at.clock,
                times=at.times,
                lookups=dict(lookups),
                reading=reading,
                rows=one.rows,
                share=wanted.share,
            )
        )
    return tuple(plans)


def _inputs(job: KeyedJob, changes: Mapping[str, Changes], one: Slice) -> tuple[TableInput, ...]:
    files: dict[str, list[PlannedFile]] = {name: [] for name in job.inputs}
    for file, whole in one.files:
        files[file.input].append(PlannedFile(path=file.path, rows=file.rows, bytes=file.bytes, whole=whole))
    return tuple(
        TableInput(
            table=declared.table,
            input=name,
            position=changes[declared.table].position,
            arrived=changes[declared.table].arrived,
            files=tuple(files[name]),
        )
        for name, declared in job.inputs.items()
    )


def _span(wanted: RunBounds) -> tuple[int | None, int | None]:
    """Return the bounds of the run in microseconds."""
    since, until = (None if bound is None else micros(in_utc(bound)) for bound in (wanted.since, wanted.until))
    return since, until
