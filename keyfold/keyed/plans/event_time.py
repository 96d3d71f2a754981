"""How a run moves event time: by the events that it reads, by silence, or by hand; never back.

In a stream whose arrival stands in for missing times (`Stream.missing_time`), only a time that an event has of its own says
how far event time has come: an arrival is ahead of all times that producers have sent, and would make late whatever they send
next. An event that is of its arrival waits there for the others, as any event that is ahead of them. Where no event has
had a time of its own so far, arrivals are all there is, and move it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import polars as pl

from keyfold.journal.clock import LONGEST_TICK, Silence, silent_event_time, watermark_after
from keyfold.keyed.generation.batch_records import ClockRecord, InputTime, KeyedDone, PlannedClock
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.several_inputs import Input
from keyfold.keyed.plans.slices import Slice
from keyfold.lakehouse.log_changes import DataFile, newest_time
from keyfold.lakehouse.parquet import parquet_file
from keyfold.storage.place import Place
from keyfold.stream import INGESTED_AT
from keyfold.times import BEGINNING, from_micros, micros, shifted

_MOMENT = timedelta(microseconds=1)
"""From one event time to the next."""


class BoundsOfTime(NamedTuple):
    """What a run is asked for: no event at or past `until` is read, and event time reaches `advance_to` at its end."""

    until: datetime | None
    advance_to: datetime | None


class Came(NamedTuple):
    """The newest times of the events of a run.

    Attributes:
        newest: of all; None of none.
        own: of those that have a time of their own; None of none.
    """

    newest: datetime | None
    own: datetime | None


@dataclass(frozen=True)
class Instant:
    """The clock of a batch, and how far each input has come by then; see `KeyedPlan`."""

    clock: PlannedClock
    times: dict[str, InputTime]


class EventTime:
    """Where event time stands as a run begins, and how the run moves it.

    The watermark is the least of the inputs', where a table of another job has come as far as that job's watermark. An input that is idle (`Input.idle_timeout`) is left out, as long as another
    one is not.

    Attributes:
        watermark: that the run begins with.
    """

    def __init__(
        self,
        job: KeyedJob,
        done: KeyedDone | None,
        clock: ClockRecord | None,
        processing_time: datetime,
        produced: Mapping[str, datetime],
    ) -> None:
        self._produced = produced
        self._job, self._processing_time = job, processing_time
        reached = [one.watermark for one in (done, clock) if one is not None]
        self.watermark = max(reached, default=BEGINNING)
        self._before = {name: done.times.get(name, InputTime()) if done else InputTime() for name in job.all_inputs}

    def through(self, slices: Sequence[Slice], came: Mapping[str, Came], bounds: BoundsOfTime) -> list[Instant]:
        """The clocks of a run that reads these slices.

        Up to the last slice the watermark stays behind whatever is still to come, by the inputs' delays; the run's end is
        the newest events', whatever the slices were.

        Args:
            slices: one at least.
            came: of each input of which events came, their newest times.
            bounds: what the run is asked for.
        """
        after = {name: self._after(name, came.get(name), bounds) for name in self._before}
        found: list[Instant] = []
        watermark = self.watermark
        for one in slices[:-1]:
            late_watermark = watermark
            # An event at the slice's very end is of the next slice.
            end = end_of(one) - _MOMENT
            # And no further than the run: a slice may end among arrivals, which move nothing.
            times = {name: self._at_slice(name, end, after[name], is_read=name in came) for name in after}
            watermark = max(watermark, self._least(self._watermarks(times), came))
            found.append(self._at(late_watermark, watermark, times))
        return [*found, self._end(watermark, after, came, bounds)]

    def tick(self, bounds: BoundsOfTime) -> list[Instant]:
        """The clock of a run that nothing came for."""
        return [self._end(self.watermark, {name: self._after(name, None, bounds) for name in self._before}, {}, bounds)]

    def is_idle(self, name: str) -> bool:
        """Whether an input does not hold the watermark back, should nothing come of it."""
        timeout, since = self._job.all_inputs[name].idle_timeout, self._before[name].arrived_at
        return timeout is not None and since is not None and self._processing_time - since >= timeout

    def _after(self, name: str, came: Came | None, bounds: BoundsOfTime) -> InputTime:
        """How far an input has come at the end of the run."""
        before = self._before[name]
        newest, arrived_at, stands_in = before.newest, before.arrived_at, before.stands_in
        if name in self._produced:
            # A job says itself how far it has come, also where it had nothing to write.
            newest = _latest(newest, self._produced[name])
            arrived_at = self._processing_time if came is not None or newest != before.newest else arrived_at
        elif came is None:
            # Waited for since the job's first run: from then on it may become idle.
            arrived_at = arrived_at or (self._processing_time if self._job.inputs else None)
        elif came.own is not None or newest is None or stands_in:
            newest = _latest(newest, came.own or came.newest)
            arrived_at, stands_in = self._processing_time, came.own is None
        # Else nothing came that says how far event time is: it goes on as on a silent stream.
        if newest is not None and bounds.until is not None:
            # What lies past the range is read by nobody, and must not move the clock.
            newest = min(newest, shifted(bounds.until, -_MOMENT))
        return InputTime(newest=newest, arrived_at=arrived_at, stands_in=stands_in)

    def _at_slice(self, name: str, end: datetime, after: InputTime, *, is_read: bool) -> InputTime:
        """How far an input has come at the end of a slice that others follow."""
        if not is_read:
            return after
        reached = end if after.newest is None else min(end, after.newest)
        return after.model_copy(update={"newest": _latest(self._before[name].newest, reached)})

    def _watermarks(self, times: Mapping[str, InputTime]) -> dict[str, datetime]:
        """By the events of each input."""
        declared = self._job.all_inputs
        return {
            name: watermark_after(BEGINNING, one.newest, declared[name].watermark_delay) for name, one in times.items()
        }

    def _least(self, watermarks: Mapping[str, datetime], came: Mapping[str, Came]) -> datetime:
        waited_for = [at for name, at in watermarks.items() if name in came or not self.is_idle(name)]
        return min(waited_for or watermarks.values())

    def _end(
        self, late_watermark: datetime, after: dict[str, InputTime], came: Mapping[str, Came], bounds: BoundsOfTime
    ) -> Instant:
        watermarks = self._watermarks(after)
        watermark, by = max(late_watermark, self._least(watermarks, came)), ""
        silent = {name: max(at, self._by_silence(name, after[name])) for name, at in watermarks.items()}
        if (moved := self._least(silent, came)) > watermark:
            watermark, by = moved, "silence"
        watermark, by = _by_hand(watermark, by, bounds)
        return self._at(late_watermark, watermark, after, by)

    def _by_silence(self, name: str, after: InputTime) -> datetime:
        """The watermark of an input by the time that has gone by since its newest event came."""
        before, delay = self._before[name], self._job.all_inputs[name].watermark_delay
        if after.arrived_at == self._processing_time or before.newest is None or before.arrived_at is None:
            return BEGINNING
        silence = Silence(before.newest, before.arrived_at)
        # What event time has reached lies the delay ahead of the watermark.
        reached = shifted(self.watermark, delay)
        return watermark_after(
            BEGINNING, silent_event_time(silence, self._processing_time, self._job.idle_after, reached), delay
        )

    def _at(self, late_watermark: datetime, watermark: datetime, times: dict[str, InputTime], by: str = "") -> Instant:
        clock = PlannedClock(
            late_watermark=late_watermark,
            watermark=watermark,
            processing_time=self._processing_time,
            advanced_by=by,
            watermarks=self._watermarks(times) if self._job.inputs else {},
        )
        return Instant(clock, times)


def newest_that_came(declared: Input, table: Place, files: Iterable[DataFile]) -> Came:
    """How far the events in an input's files reach; where arrivals may be among their times, by a look into the files."""
    by_path = {file.path: file for file in files}
    newest = _newest_of(table, by_path.values(), declared.stored_time)
    stream = declared.stream
    if stream.missing_time != "arrival" or declared.stored_time != stream.event_time:
        return Came(newest, newest)
    own: datetime | None = None
    for path, file in by_path.items():
        for time in _own_times(table / path, declared.stored_time, own):
            # A file without arrivals is of before there were any: nothing stands in there.
            own = _latest(own, time or newest_time(table, file, declared.stored_time))
    return Came(newest, own)


def waits_for_others(declared: Input, came: Came, end: InputTime) -> str | None:
    """What to say where events that are of their arrival are long ahead of the times that others have of their own."""
    if came.newest is None or end.newest is None or came.newest - end.newest <= LONGEST_TICK:
        return None
    return (
        f"some events of {declared.table} have no time of their own and are of their arrival, up to "
        f"{came.newest:%Y-%m-%d %H:%M}, while those that have one have come to {end.newest:%Y-%m-%d %H:%M}: what waits for the "
        "watermark, or for the end of a window, waits till then; a job with time=arrival goes by the arrival of all, and "
        "--advance-to says that no more is to come"
    )


def end_of(one: Slice) -> datetime:
    """The end of a slice that another one follows."""
    assert one.until is not None  # noqa: S101 - the last slice alone may have no end
    return from_micros(one.until)


def _newest_of(table: Place, files: Iterable[DataFile], time: str) -> datetime | None:
    newest: datetime | None = None
    # From the last on: the first that Keyfold wrote ends the search, and the others are looked into.
    for file in sorted(files, key=lambda file: file.last or 0, reverse=True):
        if newest is not None and file.last is not None and micros(newest) >= file.last:
            break
        newest = _latest(newest, newest_time(table, file, time))
    return newest


def _own_times(path: Place, time: str, known: datetime | None) -> Iterator[datetime | None]:
    """Times of a file's events that are not their arrival, of those past `known` the newest at least; None for all of them."""
    with parquet_file(path) as file:
        if INGESTED_AT not in file.schema_arrow.names:
            yield None
            return
        places = {name: file.schema_arrow.names.index(name) for name in (time, INGESTED_AT)}
        for group in range(file.num_row_groups):
            parts = file.metadata.row_group(group)
            times, arrivals = (parts.column(places[name]).statistics for name in (time, INGESTED_AT))
            if times is not None and arrivals is not None and times.has_min_max and arrivals.has_min_max:
                if known is not None and times.max <= known:
                    continue
                # All of them are older than the first arrival: no row needs a look.
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


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((time for time in (one, other) if time is not None), default=None)
