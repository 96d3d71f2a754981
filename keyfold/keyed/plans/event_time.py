"""Advance event time: by the events of a run, by the time since the last events, or by `advance_to`. It never goes back.

In a stream that takes the arrival in place of a missing time (`Stream.missing_time`), only events with their own time advance
event time. An arrival is later than any time that producers have sent, and would make their next events late. Arrivals advance
event time only if no event has had its own time so far.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import polars as pl

from keyfold.journal.clock import LONGEST_TICK, Silence, silent_event_time, watermark_after
from keyfold.keyed.generation.batch_records import ClockRecord, InputTime, KeyedDone, PlannedClock
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.plans.slices import Slice
from keyfold.lakehouse.log_changes import DataFile, newest_time
from keyfold.lakehouse.reading import parquet_file
from keyfold.storage.place import Place
from keyfold.stream import INGESTED_AT
from keyfold.times import BEGINNING, from_micros, micros, shifted

_MOMENT = timedelta(microseconds=1)
"""The smallest difference of two event times."""


class BoundsOfTime(NamedTuple):
    """Bounds of a run: it reads no event at or after `until`, and its end advances event time to `advance_to` at least."""

    until: datetime | None
    advance_to: datetime | None


class NewestTimes(NamedTuple):
    """The newest event times of an input in a run.

    Attributes:
        newest: of all events; None without events.
        own: of events with their own time, and not their arrival; None without such events.
    """

    newest: datetime | None
    own: datetime | None


@dataclass(frozen=True)
class Instant:
    """The clock of a batch, and the event time of each input; see `KeyedPlan`."""

    clock: PlannedClock
    times: dict[str, InputTime]


class EventTime:
    """Event time at the start of a run, and how the run advances it.

    The watermark is the minimum of the inputs' watermarks. Idle inputs (`Input.idle_timeout`) are left out, unless all are
    idle. An input that is another job's table has the event time of that job's watermark.

    Attributes:
        watermark: the watermark at the start of the run.
    """

    def __init__(
        self,
        job: KeyedJob,
        last: KeyedDone | None,
        clock: ClockRecord | None,
        processing_time: datetime,
        produced: Mapping[str, datetime],
    ) -> None:
        self._produced = produced
        self._job, self._processing_time = job, processing_time
        watermarks = [record.watermark for record in (last, clock) if record is not None]
        self.watermark = max(watermarks, default=BEGINNING)
        self._before = {name: last.times.get(name, InputTime()) if last else InputTime() for name in job.inputs}

    def through(self, slices: Sequence[Slice], came: Mapping[str, NewestTimes], bounds: BoundsOfTime) -> list[Instant]:
        """Return the clocks of a run that reads these slices.

        After each slice but the last, the watermark stays behind the events of the next slices, by the inputs' delays. After
        the last slice it follows the newest events, so it does not depend on the slices.

        Args:
            slices: at least one slice.
            came: the newest times of each input that has events.
            bounds: bounds of the run.
        """
        after = {name: self._after(name, came.get(name), bounds) for name in self._before}
        instants: list[Instant] = []
        watermark = self.watermark
        for slice_ in slices[:-1]:
            previous_watermark = watermark
            # The end of a slice is exclusive.
            end = end_of(slice_) - _MOMENT
            # Not later than at the end of the run: a slice may end among arrivals, which do not advance event time.
            times = {name: self._at_slice(name, end, after[name], is_read=name in came) for name in after}
            watermark = max(watermark, self._least(self._watermarks(times), came))
            instants.append(self._at(previous_watermark, watermark, times))
        return [*instants, self._end(watermark, after, came, bounds)]

    def tick(self, bounds: BoundsOfTime) -> list[Instant]:
        """Return the clock of a run without new events."""
        return [self._end(self.watermark, {name: self._after(name, None, bounds) for name in self._before}, {}, bounds)]

    def is_idle(self, name: str) -> bool:
        """Whether an input without new events is left out of the watermark."""
        produced, newest = self._produced.get(name), self._before[name].newest
        # A producer that advances its watermark is not idle, also if it writes no rows.
        if produced is not None and (newest is None or produced > newest):
            return False
        timeout, since = self._job.inputs[name].idle_timeout, self._before[name].arrived_at
        return timeout is not None and since is not None and self._processing_time - since >= timeout

    def _after(self, name: str, came: NewestTimes | None, bounds: BoundsOfTime) -> InputTime:
        """Return the event time of an input at the end of the run."""
        before = self._before[name]
        newest, arrived_at, stands_in = before.newest, before.arrived_at, before.stands_in
        if name in self._produced:
            # A producer's watermark advances the input, also when the producer wrote no rows.
            newest = _latest(newest, self._produced[name])
            arrived_at = self._processing_time if came is not None or newest != before.newest else arrived_at
        elif came is None:
            # An input that never had events becomes idle when its timeout has passed since the job's first run.
            arrived_at = arrived_at or self._processing_time
        elif came.own is not None or newest is None or stands_in:
            newest = _latest(newest, came.own or came.newest)
            arrived_at, stands_in = self._processing_time, came.own is None
        # Otherwise all new events have arrivals for times, and event time advances as on a silent stream.
        if newest is not None and bounds.until is not None:
            # Events after the range are not read, and must not advance event time.
            newest = min(newest, shifted(bounds.until, -_MOMENT))
        return InputTime(newest=newest, arrived_at=arrived_at, stands_in=stands_in)

    def _at_slice(self, name: str, end: datetime, after: InputTime, *, is_read: bool) -> InputTime:
        """Return the event time of an input at the end of a slice that is not the last."""
        # No later slice has events of this input, so that it need not stay behind them.
        if not is_read:
            return after
        newest = end if after.newest is None else min(end, after.newest)
        return after.model_copy(update={"newest": _latest(self._before[name].newest, newest)})

    def _watermarks(self, times: Mapping[str, InputTime]) -> dict[str, datetime]:
        """Return the watermark of each input by its events."""
        declared = self._job.inputs
        return {
            name: watermark_after(BEGINNING, time.newest, declared[name].watermark_delay)
            for name, time in times.items()
        }

    def _least(self, watermarks: Mapping[str, datetime], came: Mapping[str, NewestTimes]) -> datetime:
        """Return the minimum over the inputs that are not idle; if all are idle, over all."""
        active = [at for name, at in watermarks.items() if name in came or not self.is_idle(name)]
        return min(active or watermarks.values())

    def _end(
        self,
        previous_watermark: datetime,
        after: dict[str, InputTime],
        came: Mapping[str, NewestTimes],
        bounds: BoundsOfTime,
    ) -> Instant:
        """Return the clock at the end of a run."""
        watermarks = self._watermarks(after)
        watermark, by = max(previous_watermark, self._least(watermarks, came)), ""
        silent = {name: max(at, self._by_silence(name, after[name])) for name, at in watermarks.items()}
        if (moved := self._least(silent, came)) > watermark:
            watermark, by = moved, "silence"
        watermark, by = _by_hand(watermark, by, bounds)
        return self._at(previous_watermark, watermark, after, by)

    def _by_silence(self, name: str, after: InputTime) -> datetime:
        """Return the watermark of an input by the processing time since its newest event arrived."""
        before, delay = self._before[name], self._job.inputs[name].watermark_delay
        # Without silence: its events arrived now, or it never had any.
        if after.arrived_at == self._processing_time or before.newest is None or before.arrived_at is None:
            return BEGINNING
        silence = Silence(before.newest, before.arrived_at)
        # Event time is ahead of the watermark by the delay.
        delayed = shifted(self.watermark, delay)
        return watermark_after(
            BEGINNING, silent_event_time(silence, self._processing_time, self._job.idle_timeout, delayed), delay
        )

    def _at(
        self, previous_watermark: datetime, watermark: datetime, times: dict[str, InputTime], by: str = ""
    ) -> Instant:
        clock = PlannedClock(
            previous_watermark=previous_watermark,
            watermark=watermark,
            processing_time=self._processing_time,
            advanced_by=by,
            watermarks=self._watermarks(times),
        )
        return Instant(clock, times)


def newest_times(declared: Input, table: Place, files: Iterable[DataFile]) -> NewestTimes:
    """Return the newest event times in an input's files; reads the files only if some times may be arrivals."""
    by_path = {file.path: file for file in files}
    newest = _newest_of(table, by_path.values(), declared.stored_time)
    stream = declared.stream
    if stream.missing_time != "arrival" or declared.stored_time != stream.event_time:
        return NewestTimes(newest, newest)
    own: datetime | None = None
    for path, file in by_path.items():
        for time in _own_times(table / path, declared.stored_time, own):
            # A file without `ingested_at` was written before the table had it: all its times are the events' own.
            own = _latest(own, time or newest_time(table, file, declared.stored_time))
    return NewestTimes(newest, own)


def waits_for_others(declared: Input, came: NewestTimes, end: InputTime) -> str | None:
    """Warn if events with their arrival for a time are far ahead of those with their own time; None if not."""
    if came.newest is None or end.newest is None or came.newest - end.newest <= LONGEST_TICK:
        return None
    return (
        f"some events of {declared.table} have no time of their own and are of their arrival, up to "
        f"{came.newest:%Y-%m-%d %H:%M}, while the newest event with its own time is of {end.newest:%Y-%m-%d %H:%M}: the "
        "watermark, and so the results for the former, wait for the latter; a job with time=arrival goes by the arrival of "
        "all events, and --advance-to advances event time without events"
    )


def end_of(slice_: Slice) -> datetime:
    """Return the end of a slice that is not the last."""
    assert slice_.until is not None  # noqa: S101 - only the last slice may have no end
    return from_micros(slice_.until)


def _newest_of(table: Place, files: Iterable[DataFile], time: str) -> datetime | None:
    newest: datetime | None = None
    # From the newest file by its statistics: the search ends at the first file that cannot have a newer time.
    for file in sorted(files, key=lambda file: file.last or 0, reverse=True):
        if newest is not None and file.last is not None and micros(newest) >= file.last:
            break
        newest = _latest(newest, newest_time(table, file, time))
    return newest


def _own_times(path: Place, time: str, before: datetime | None) -> Iterator[datetime | None]:
    """Yield event times of a file that are no arrivals, with the newest one if it is after `before`; None stands for all."""
    with parquet_file(path) as file:
        if INGESTED_AT not in file.schema_arrow.names:
            yield None
            return
        places = {name: file.schema_arrow.names.index(name) for name in (time, INGESTED_AT)}
        for group in range(file.num_row_groups):
            parts = file.metadata.row_group(group)
            times, arrivals = (parts.column(places[name]).statistics for name in (time, INGESTED_AT))
            if times is not None and arrivals is not None and times.has_min_max and arrivals.has_min_max:
                if before is not None and times.max <= before:
                    continue
                # All times are before the first arrival, so none is an arrival.
                if times.max < arrivals.min:
                    yield times.max
                    continue
            rows = pl.DataFrame(
                pl.from_arrow(file.read_row_group(group, columns=[time, INGESTED_AT], use_threads=False))
            )
            newest = rows.filter(pl.col(time) != pl.col(INGESTED_AT))[time].max()
            if isinstance(newest, datetime):
                yield newest


def _by_hand(watermark: datetime, by: str, bounds: BoundsOfTime) -> tuple[datetime, str]:
    if bounds.advance_to is not None and bounds.advance_to > watermark:
        return bounds.advance_to, "advance_to"
    return watermark, by


def _latest(first: datetime | None, other: datetime | None) -> datetime | None:
    return max((time for time in (first, other) if time is not None), default=None)
