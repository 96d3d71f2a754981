"""Define a simulated stream: its generator of clean events, the arrival of its lines, and the summary of a call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SECOND = 1_000_000
"""Microseconds of a second; times in the simulation are integers, in microseconds since 1970."""

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(frozen=True, kw_only=True)
class LineCounts:
    """The counts of the lines of all readable files.

    Attributes:
        rows: lines without headers; the sum of `events`, `duplicates` and `malformed`.
        events: well-formed events, each counted once.
        duplicates: further exact copies of events.
        malformed: lines that are not valid events; `malformed_by_fault` has the number by fault.
        out_of_order: events that arrive after one that is newer by more than `Arrival.out_of_order`; includes the late ones.
        late: events that arrive after one that is newer by more than `Arrival.late`.
        untimed: events whose line has no time, so a reader cannot detect that they are out of order.
    """

    rows: int
    events: int
    duplicates: int
    malformed: int
    malformed_by_fault: Mapping[str, int]
    out_of_order: int
    late: int
    untimed: int


@dataclass(frozen=True, kw_only=True)
class SimulationSummary(LineCounts):
    """What one call wrote.

    Attributes:
        stream: the stream's name.
        size: number of rides, stations, series, vehicles, sales or cards; see `Simulator.counted`.
        files: number of readable files. `unreadable_files` are not included, and their lines are not counted.
        start: no event is earlier.
        end: no well-formed event is later; the next call into the same folder starts here.
        planted: what a job should detect, depending on the stream: jumps of meters, anomalies or frauds.
    """

    stream: str
    size: int
    files: int
    unreadable_files: int
    start: datetime
    end: datetime
    planted: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Arrival:
    """The arrival of a stream's lines: one event in 25 is held back, and one in 200 is late. Times are in minutes.

    Attributes:
        delay: mean delay of every event, in seconds.
        held_back: least and greatest additional delay of events that are held back.
        out_of_order: an event is out of order if one that is newer by more than this has arrived before.
        late: an event is late if one that is newer than its `over` by more than this has arrived before.
        late_by: least and greatest time after `over` at which late events arrive.
        by_key: whether an event is compared only with those of the same key.
    """

    delay: float = 2
    held_back: tuple[float, float] = (1, 5)
    out_of_order: float = 1
    late: float = 40
    late_by: tuple[float, float] = (45, 70)
    by_key: bool = False


@dataclass(frozen=True)
class Format:
    """One file format of a stream.

    Attributes:
        ending: `ndjson` or `csv`; also the column of `SimulatedEvents.events` with the lines.
        faults: faults by name, each an expression that makes a malformed line from the good one in `line`.
        header: the first line of every file, if any.
        untimed: whether the line of an event has no time.
    """

    ending: str
    faults: Mapping[str, pl.Expr]
    header: str = ""
    untimed: pl.Expr = field(default_factory=lambda: pl.lit(value=False))


@dataclass(frozen=True)
class SimulatedEvents:
    """Clean events, before faults are added.

    Attributes:
        events: the columns `time` and `over` (the time from which lateness counts: the event's own time, or the end of its
            ride), both in microseconds since 1970; `key`; and for each format a column of lines.
        formats: the formats of the files, in turn.
        planted: what a job should detect.
        file_by_key: write one file per key, with the key as its path, instead of files in the order of arrival.
    """

    events: pl.DataFrame
    formats: tuple[Format, ...]
    planted: tuple[Any, ...] = ()
    file_by_key: bool = False


@dataclass(frozen=True)
class SimulationRequest:
    """The arguments of a call for the stream's generator.

    Attributes:
        size: number of rides, stations, …; see `Simulator.counted`.
        begin: the earliest event time, in microseconds since 1970.
        end: the end of event time, exclusive.
        first: whether the folder has no files of the stream yet.
    """

    size: int
    begin: int
    end: int
    first: bool

    def grid(self, step: int) -> Ints:
        """Return the multiples of a step from `begin` on and before `end`."""
        return np.arange(-(-self.begin // step) * step, self.end, step, dtype=np.int64)


@dataclass(frozen=True)
class Simulator:
    """One stream that can be simulated.

    Attributes:
        name: the stream's name.
        counted: what `size` counts, such as rides.
        make: the generator of clean events.
        size: the default size; the minimum is `least_size`.
        hours: the default spans of a first call and of further ones; the minimum is `least_hours`.
        files: the default number of files.
        arrival: the arrival of lines.
        prefix: prefix of the file names; by default the stream's name.
        copies: whether some lines are duplicated; only if the stream can tell duplicates from equal events.
    """

    name: str
    counted: str
    make: Callable[[np.random.Generator, SimulationRequest], SimulatedEvents]
    size: int
    hours: tuple[float, float]
    least_hours: float
    files: int
    arrival: Arrival = Arrival()
    least_size: int = 1
    copies: bool = True
    prefix: str = ""

    @property
    def stem(self) -> str:
        """The prefix of the file names."""
        return self.prefix or self.name
