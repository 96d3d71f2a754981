"""Turn a table of clean events into lines in the order of arrival, plant faults, and count them.

The faults are the same for every stream: events out of order, late and duplicated, and the malformed lines of `faults_of`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from keyfold import Stream

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SECOND = 1_000_000
"""Microseconds of a second; times in the simulation are integers, in microseconds since 1970."""

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(frozen=True)
class Arrival:
    """When a stream's lines arrive: one event in 25 is held back, and one in 200 is late. Times are in minutes.

    Attributes:
        delay: mean delay of every event, in seconds.
        held_back: least and greatest additional delay of events that are held back.
        out_of_order: an event is out of order if one that is newer by more than this has arrived before.
        late: an event is late if one that is newer than its `over` by more than this has arrived before.
        late_by: least and greatest time after `over` at which late events arrive.
        over: the time from which lateness counts, if that is not the event's own; such as the end of its ride.
    """

    delay: float = 2
    held_back: tuple[float, float] = (1, 5)
    out_of_order: float = 1
    late: float = 40
    late_by: tuple[float, float] = (45, 70)
    over: pl.Expr | None = None


@dataclass(frozen=True)
class Simulator:
    """A stream that can be simulated.

    Attributes:
        stream: the stream.
        counted: what `size` counts, such as rides.
        table: makes clean events with the stream's columns, of `size` rides, stations, …, from a time until before another.
        size: the default size; the least is `least_size`.
        hours: the default spans of a first call and of further ones; the least is `least_hours`.
        files: the default number of files.
        wrong: for some columns, a value that a rule of the stream refuses.
        ending: the form of the lines, `ndjson` or `csv`.
    """

    stream: Stream
    counted: str
    table: Callable[[np.random.Generator, int, int, int], pl.DataFrame]
    size: int
    hours: tuple[float, float]
    least_hours: float
    files: int
    wrong: Mapping[str, float | str] = field(default_factory=dict)
    arrival: Arrival = Arrival()
    least_size: int = 1
    ending: str = "ndjson"


def faults_of(simulator: Simulator) -> dict[str, dict[str, pl.Expr]]:
    """Return the malformed lines of a stream by name: for each, the columns that differ from a good line's."""
    stream = simulator.stream
    number = next(one.name for one in stream.schema if pa.types.is_floating(one.type))
    return {
        "broken line": {},
        "empty key": {stream.schema.names[0]: pl.lit(" ")},
        "unreadable time": {str(stream.event_time): pl.lit("half past nine")},
        "time in the future": {str(stream.event_time): pl.lit("2199-12-31T23:59:59Z")},
        "word for a number": {number: pl.lit("plenty")},
        **{f"wrong {column}": {column: pl.lit(value)} for column, value in simulator.wrong.items()},
    }


def feed(
    rng: np.random.Generator, simulator: Simulator, table: pl.DataFrame, files: int
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the lines of clean events with faults in the order of arrival (`file`, a number; `line`), and their counts.

    Lines are duplicated only if the stream can tell duplicates from equal events.
    """
    events, out_of_order, late = _in_order_of_arrival(rng, simulator, table, files)
    copies = _copies(rng, events, files) if simulator.stream.event_id else events.clear()
    each = max(1, len(events) // 1000)
    malformed = []
    for fault, changes in faults_of(simulator).items():
        near = events[rng.choice(len(events), each, replace=len(events) < each)]
        line = _line(simulator, changes)
        line = line.str.head(20) if fault == "broken line" else line
        malformed.append(near.select("file", pl.col("place") + 0.25, line=line))
    good = pl.concat([events, copies]).select("file", "place", line=_line(simulator, {}))
    lines = pl.concat([good, *malformed])
    counts = {
        "rows": len(lines),
        "events": len(events),
        "duplicates": len(copies),
        "malformed": each * len(malformed),
        "malformed_by_fault": dict.fromkeys(faults_of(simulator), each),
        "out_of_order": out_of_order,
        "late": late,
    }
    return lines.sort("file", "place").drop("place"), counts


def _in_order_of_arrival(
    rng: np.random.Generator, simulator: Simulator, table: pl.DataFrame, files: int
) -> tuple[pl.DataFrame, int, int]:
    """Order the events by arrival, with `file` and `place`; return them, and how many are out of order and late."""
    arrival, count = simulator.arrival, len(table)
    time = pl.col(str(simulator.stream.event_time)).cast(pl.Int64)
    times: Ints = table.select(time).to_series().to_numpy()
    over: Ints = table.select(time if arrival.over is None else arrival.over.cast(pl.Int64)).to_series().to_numpy()
    arrives: Floats = times + rng.exponential(arrival.delay * SECOND, count)
    held_back = rng.random(count) < 0.04
    least, most = arrival.held_back
    arrives[held_back] += rng.uniform(least * MINUTE, most * MINUTE, held_back.sum())
    least, most = arrival.late_by
    # Only early events can be late: newer ones must arrive before them.
    early = np.flatnonzero(over < times.max() - (most + 5) * MINUTE)
    stragglers = rng.choice(early, min(len(early), max(1, count // 200)), replace=False)
    arrives[stragglers] = over[stragglers] + rng.uniform(least * MINUTE, most * MINUTE, len(stragglers))
    order = np.argsort(arrives, kind="stable")
    place = np.arange(count)
    # Places are floats, so that copies and malformed lines fit between two events.
    arrived = table[order].with_columns(file=pl.Series(place * files // count), place=pl.Series(place * 1.0))
    # Lines are in the order of arrival, so the running maximum is the newest time that a reader has seen.
    newest = np.maximum.accumulate(times[order])
    out_of_order = (newest - times[order] > arrival.out_of_order * MINUTE).sum()
    return arrived, int(out_of_order), int((newest - over[order] > arrival.late * MINUTE).sum())


def _copies(rng: np.random.Generator, events: pl.DataFrame, files: int) -> pl.DataFrame:
    """Copy some events exactly: half right after the original, half at the end of one of the next two files."""
    count = max(2, len(events) // 50)
    chosen = events[rng.choice(len(events), count, replace=len(events) < count)]
    later = pl.Series(rng.integers(1, 2, count, endpoint=True) * (np.arange(count) % 2))
    file = pl.min_horizontal(pl.col("file") + later, files - 1)
    at_end = pl.when(file > pl.col("file")).then(float(len(events))).otherwise(pl.col("place") + 0.5)
    return chosen.with_columns(file=file, place=at_end)


def _line(simulator: Simulator, changes: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return the lines of events, with other values in some columns."""
    columns = {name: pl.col(name) for name in simulator.stream.schema.names}
    time = str(simulator.stream.event_time)
    columns[time] = columns[time].dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    columns |= changes
    if simulator.ending == "csv":
        return pl.concat_str([value.cast(pl.String).fill_null("") for value in columns.values()], separator=",")
    return pl.struct(value.alias(name) for name, value in columns.items()).struct.json_encode()
