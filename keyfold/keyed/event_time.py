"""How a run moves event time: by the events that it reads, by silence, or by hand; never back.

In a stream whose arrival stands in for missing times (`Stream.missing_time`), only a time that an event has of its own says
how far event time has come: an arrival is ahead of all times that producers have sent, and would make late whatever they send
next. An event that is of its arrival waits there for the others, as any event that is ahead of them. Where no event has
had a time of its own so far, arrivals are all there is, and move it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import polars as pl

from keyfold.journal.clock import LONGEST_TICK, Silence, silent_event_time, watermark_after
from keyfold.keyed.contract import KeyedJob
from keyfold.keyed.records import ClockRecord, KeyedDone, PlannedClock
from keyfold.keyed.slices import Slice
from keyfold.lakehouse.changes import DataFile, newest_time
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
    """The clock of a batch, and what is known of the stream by then; see `KeyedPlan`."""

    clock: PlannedClock
    newest: datetime | None
    arrived_at: datetime | None
    stands_in: bool


class EventTime:
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
        self._stands_in = done.stands_in if done else False
        reached = [one.watermark for one in (done, clock) if one is not None]
        self.watermark = max(reached, default=BEGINNING)

    def through(self, slices: Sequence[Slice], came: Came, bounds: BoundsOfTime) -> list[Instant]:
        """The clocks of a run that reads these slices.

        Up to the last slice the watermark stays behind whatever is still to come, by the job's delay; the run's end is
        the newest event's, whatever the slices were.
        """
        newest, arrived_at, stands_in = self._newest, self._processing_time, came.own is None
        if stands_in and newest is not None and not self._stands_in:
            # Nothing came that says how far event time is: it goes on as on a silent stream.
            arrived_at, stands_in = self._arrived_at, False
        else:
            newest = _latest(newest, came.own or came.newest)
        if newest is not None and bounds.until is not None:
            # What lies past the range is read by nobody, and must not move the clock.
            newest = min(newest, shifted(bounds.until, -_MOMENT))
        found: list[Instant] = []
        watermark = self.watermark
        for one in slices[:-1]:
            late_watermark = watermark
            # An event at the slice's very end is of the next slice.
            reached = end_of(one) - _MOMENT
            # And no further than the run: a slice may end among arrivals, which move nothing.
            reached = reached if newest is None else min(reached, newest)
            watermark = watermark_after(late_watermark, reached, self._job.watermark_delay)
            found.append(self._at(late_watermark, watermark, _latest(self._newest, reached), arrived_at, stands_in))
        late_watermark, by = watermark, ""
        watermark = watermark_after(watermark, newest, self._job.watermark_delay)
        if arrived_at != self._processing_time:
            watermark, by = self._by_silence(watermark)
        watermark, by = _by_hand(watermark, by, bounds)
        return [*found, self._at(late_watermark, watermark, newest, arrived_at, stands_in, by)]

    def tick(self, bounds: BoundsOfTime) -> list[Instant]:
        """The clock of a run that nothing came for."""
        watermark, by = _by_hand(*self._by_silence(self.watermark), bounds)
        return [self._at(self.watermark, watermark, self._newest, self._arrived_at, self._stands_in, by)]

    def _by_silence(self, watermark: datetime) -> tuple[datetime, str]:
        """The watermark by the time that has gone by since the newest event came, and what moved it."""
        silence = Silence(self._newest, self._arrived_at) if self._newest and self._arrived_at else None
        # What event time has reached lies the delay ahead of the watermark.
        reached = None if silence is None else shifted(self.watermark, self._job.watermark_delay)
        silent = silent_event_time(silence, self._processing_time, self._job.idle_after, reached)
        moved = watermark_after(watermark, silent, self._job.watermark_delay)
        return (moved, "silence") if moved > watermark else (watermark, "")

    def _at(
        self,
        late_watermark: datetime,
        watermark: datetime,
        newest: datetime | None,
        arrived_at: datetime | None,
        stands_in: bool,
        by: str = "",
    ) -> Instant:
        clock = PlannedClock(
            late_watermark=late_watermark, watermark=watermark, processing_time=self._processing_time, advanced_by=by
        )
        return Instant(clock, newest, arrived_at, stands_in)


def newest_that_came(job: KeyedJob, table: Place, slices: Sequence[Slice]) -> Came:
    """How far the events of a run's slices reach; where arrivals may be among their times, by a look into the files."""
    files = {file.path: file for one in slices for file, _ in one.files}
    newest = _newest_of(table, files.values(), job.stored_time)
    stream = job.stream
    if stream.missing_time != "arrival" or job.stored_time != stream.event_time:
        return Came(newest, newest)
    own: datetime | None = None
    for path, file in files.items():
        for time in _own_times(table / path, job.stored_time, own):
            # A file without arrivals is of before there were any: nothing stands in there.
            own = _latest(own, time or newest_time(table, file, job.stored_time))
    return Came(newest, own)


def waits_for_others(job: KeyedJob, came: Came, end: Instant) -> str | None:
    """What to say where events that are of their arrival are long ahead of the times that others have of their own."""
    if came.newest is None or end.newest is None or came.newest - end.newest <= LONGEST_TICK:
        return None
    return (
        f"some events of events.{job.stream.name} have no time of their own and are of their arrival, up to "
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
