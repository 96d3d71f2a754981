"""What a simulated stream is made of: a maker of clean tables, the ways its lines arrive, and what was written."""

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
"""Times within the simulation are whole microseconds since 1970."""

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(frozen=True, kw_only=True)
class SimulationSummary:
    """What one call wrote.

    Attributes:
        stream: the stream's name.
        size: how many rides, stations, series, vehicles or sales; `Simulator.counted` says which.
        files: readable files; `unreadable_files` come on top, and nothing below counts what is in them.
        rows: lines without headers, which are `events + duplicates + malformed`.
        events: well-formed events, each counted once.
        duplicates: further copies of an event, byte for byte.
        malformed: lines that are no valid event; `malformed_by_fault` says what is wrong with how many.
        out_of_order: events that arrive after one that is newer by more than `Arrival.out_of_order`; also the late.
        late: events that arrive after one that is newer by more than `Arrival.late`.
        untimed: events whose line says no time, so that no reader can tell whether they are out of order.
        start: no event is earlier.
        end: no well-formed event is later; the next call into the same folder starts here.
        planted: what a job is to find, by the stream: jumps of meters, anomalies, frauds.
    """

    stream: str
    size: int
    files: int
    unreadable_files: int
    rows: int
    events: int
    duplicates: int
    malformed: int
    malformed_by_fault: Mapping[str, int]
    out_of_order: int
    late: int
    untimed: int
    start: datetime
    end: datetime
    planted: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Arrival:
    """How the lines of a stream arrive; one event in 25 is held back, and one in 200 is late. Times are in minutes.

    Attributes:
        delay: on average, of every event, in seconds.
        held_back: least and greatest further delay of those held back.
        out_of_order: an event is, when one newer by more than this has already arrived.
        late: an event is, when one newer by more than this than `over` has already arrived.
        late_by: least and greatest time past `over` at which late events arrive.
        by_key: whether "already arrived" looks at events of the same key alone.
    """

    delay: float = 2
    held_back: tuple[float, float] = (1, 5)
    out_of_order: float = 1
    late: float = 40
    late_by: tuple[float, float] = (45, 70)
    by_key: bool = False


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes:
        ending: `ndjson` or `csv`; also the column of `Made.events` that holds the lines.
        faults: what may be wrong with a line, and how to make it so from a good one in `line`.
        header: the first line of every file, if any.
        untimed: whether the line of an event says no time.
    """

    ending: str
    faults: Mapping[str, pl.Expr]
    header: str = ""
    untimed: pl.Expr = field(default_factory=lambda: pl.lit(value=False))


@dataclass(frozen=True)
class SimulatedEvents:
    """Clean events, before anything goes wrong.

    Attributes:
        events: `time` and `over` (from when on it can be late: its own time, or its ride's end), both in microseconds
            since 1970, `key`, and for each format a column of lines.
        formats: files take them in turn.
        planted: what a job is to find.
        file_by_key: one file a key, under the key's path, in place of files in the order of arrival.
    """

    events: pl.DataFrame
    formats: tuple[Format, ...]
    planted: tuple[Any, ...] = ()
    file_by_key: bool = False


@dataclass(frozen=True)
class SimulationRequest:
    """What a stream is asked to make.

    Attributes:
        size: how many of what the stream counts.
        begin: the earliest event time, in microseconds since 1970.
        end: where event time ends.
        first: nothing is in the folder yet.
    """

    size: int
    begin: int
    end: int
    first: bool

    def grid(self, step: int) -> Ints:
        """The moments from `begin` on, and before `end`, that are whole multiples of a step."""
        return np.arange(-(-self.begin // step) * step, self.end, step, dtype=np.int64)


@dataclass(frozen=True)
class Simulator:
    """One stream that can be simulated.

    Attributes:
        name: the stream's.
        counted: what `size` counts.
        make: makes the clean events.
        size: unless told otherwise; `least_size` at least.
        hours: span of a first call and of further ones, unless told otherwise; `least_hours` at least.
        files: unless told otherwise.
        arrival: how lines arrive.
        prefix: of its files' names; by default the stream's name.
        copies: whether some lines come more than once; only where the stream can tell copies from equal events.
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
        """What its files' names begin with."""
        return self.prefix or self.name


def json_field(name: str, value: str) -> pl.Expr:
    """A fault: the line with another value, given as JSON, for a field whose value is neither list nor object."""
    return pl.col("line").str.replace(rf'"{name}":("[^"]*"|[^,"}}\]]*)', f'"{name}":{value}')


def csv_field(position: int, value: str) -> pl.Expr:
    """A fault: the line with another value in one field, counted from 0 or, backwards, from -1.

    No field between that one and the end it is counted from may be quoted.
    """
    if position >= 0:
        return pl.col("line").str.replace(rf"^((?:[^,]*,){{{position}}})[^,]*", f"${{1}}{value}")
    return pl.col("line").str.replace(rf"[^,]*((?:,[^,]*){{{-position - 1}}})$", f"{value}${{1}}")
