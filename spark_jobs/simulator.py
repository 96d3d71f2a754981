"""Simulated ride points in a landing folder, with the faults that real feeds have, counted.

Every call writes files of the workshop's message, one JSON object a line, in the order of arrival: out of order by
minutes, some points more than once, some long after their ride is over, some lines malformed, one file cut short.
"""

import gzip
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from spark_jobs.errors import KeyfoldError
from spark_jobs.simulated_rides import (
    Floats,
    Ints,
    microseconds,
    ride_ids,
    ride_points,
    ride_points_table,
    seconds_into_ride,
)

__all__ = ["LATE", "OUT_OF_ORDER", "SimulationSummary", "ride_points_table", "simulate"]

OUT_OF_ORDER = timedelta(minutes=1)
"""A point is out of order when one newer by more than this has already arrived."""

LATE = timedelta(minutes=40)
"""A point is late when one newer by more than this than its ride's last has already arrived.

By then even a ride without dropoff is over: 30 minutes of silence and 10 minutes of watermark delay.
"""


@dataclass(frozen=True)
class SimulationSummary:
    """What one call wrote.

    Attributes:
        files: readable files; `unreadable_files` come on top, and nothing below counts what is in them.
        rows: lines, which are `events + duplicates + malformed`.
        events: well-formed points, each counted once.
        rides: rides of the well-formed points.
        duplicates: further copies of a point, byte for byte, in its own file or in one of the next two.
        malformed: lines that are no valid event; `malformed_by_fault` says what is wrong with how many.
        out_of_order: points that arrive after one more than a minute newer, the late ones included.
        late: points that arrive when their ride has long been over; see `LATE`.
        without_dropoff: rides whose dropoff point never comes.
        over_an_hour: rides that take longer than an hour.
        start: no event is earlier.
        end: no well-formed event is later; the next call into the same folder starts here.
    """

    files: int
    unreadable_files: int
    rows: int
    events: int
    rides: int
    duplicates: int
    malformed: int
    malformed_by_fault: Mapping[str, int]
    out_of_order: int
    late: int
    without_dropoff: int
    over_an_hour: int
    start: datetime
    end: datetime


def simulate(
    to: Path,
    rides: int = 200,
    seed: int = 0,
    start: datetime | None = None,
    *,
    hours: float = 3.0,
    files: int = 24,
    compress: bool = True,
) -> SimulationSummary:
    """Write rides, and what goes wrong with them, as NDJSON files into a landing folder.

    The same arguments write the same bytes. Without `start`, the rides begin where those already in the folder end,
    or six hours before now (on the full hour) if that is later: a demo's data look fresh, and a second call, with
    another seed, goes on in time (past now from the third call in a row). All rides end within their `hours`, save
    that some points arrive late.

    Args:
        to: the folder, made if need be; readers never see half a file in it.
        rides: how many rides, ten at least; one in thirty takes longer than an hour, one in sixteen never drops off.
        seed: what chance starts from.
        start: the earliest event time, with an offset.
        hours: span of event time, 2.5 at least.
        files: how many readable files, four at least.
        compress: gzip the files.

    Raises:
        KeyfoldError: an argument is out of its range.
    """
    _check(rides, hours, files, start)
    begin = (start or _next_start(to)).astimezone(UTC)
    end = begin + timedelta(hours=hours)
    rng = np.random.default_rng(seed)
    events, over_an_hour, without_dropoff = _events(rng, rides, begin, hours)
    events, out_of_order, late = _in_order_of_arrival(rng, events, files)
    copies = _copies(rng, events, files)
    malformed, faults = _malformed(rng, events)
    lines = pl.concat([part.select("file", "place", "line") for part in (events, copies, malformed)])
    to.mkdir(parents=True, exist_ok=True)
    suffix = ".ndjson.gz" if compress else ".ndjson"
    stem = f"rides-{begin:%Y%m%dT%H%M%SZ}-{end:%Y%m%dT%H%M%SZ}-seed{seed}"
    for (number,), part in lines.sort("file", "place").group_by("file", maintain_order=True):
        text = "".join(f"{line}\n" for line in part["line"]).encode()
        _publish(to / f"{stem}-{number:04}{suffix}", gzip.compress(text, 6, mtime=0) if compress else text)
        if number == files // 2:
            cut = gzip.compress(text, 6, mtime=0)
            _publish(to / f"{stem}-{number:04}-cut-short.ndjson.gz", cut[: len(cut) // 2])
    return SimulationSummary(
        files=files,
        unreadable_files=1,
        rows=len(lines),
        events=len(events),
        rides=rides,
        duplicates=len(copies),
        malformed=len(malformed),
        malformed_by_fault=faults,
        out_of_order=out_of_order,
        late=late,
        without_dropoff=without_dropoff,
        over_an_hour=over_an_hour,
        start=begin,
        end=end,
    )


# Each is given lines of good points, and the text it replaces stands in every one of them.
_FAULTS: dict[str, pl.Expr] = {
    "broken JSON": pl.col("line").str.head(70),
    "no ride_id": pl.col("line").str.replace(r'"ride_id":"[^"]*",', ""),
    "unreadable time": pl.col("line").str.replace(r'"timestamp":"[^"]*"', '"timestamp":"half past nine"'),
    "latitude out of range": pl.col("line").str.replace(r'"latitude":[^,]*', '"latitude":999.0'),
    "unknown status": pl.col("line").str.replace(r'"ride_status":"[^"]*"', '"ride_status":"teleporting"'),
    "time in the future": pl.col("line").str.replace(
        r'"timestamp":"[^"]*"', '"timestamp":"2199-12-31T23:59:59.000000-05:00"'
    ),
}


def _check(rides: int, hours: float, files: int, start: datetime | None) -> None:
    for name, value, least in (("rides", rides, 1), ("hours", hours, 2.5), ("files", files, 4)):
        if value < least:
            raise KeyfoldError(f"simulate: {name} is {value}; it must be {least} at least")
    if start is not None and start.tzinfo is None:
        raise KeyfoldError(f"simulate: start {start} has no offset from UTC; give one, as in 2026-01-01T00:00:00+00:00")


def _next_start(to: Path) -> datetime:
    ends = [
        datetime.strptime(found[1], "%Y%m%dT%H%M%S%z")
        for file in to.glob("rides-*")
        if (found := re.match(r"rides-\w+-(\w+Z)-seed", file.name))
    ]
    fresh = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=6)
    return max([fresh, *ends])


def _events(rng: np.random.Generator, rides: int, begin: datetime, hours: float) -> tuple[pl.DataFrame, int, int]:
    """The rides' points with their `line` of JSON; how many rides are long; how many have no dropoff."""
    lengths = np.clip(rng.lognormal(np.log(60), 0.6, rides), 8, 220).astype(np.int64)
    lengths[rng.choice(rides, max(1, rides // 30), replace=False)] = rng.integers(450, 700, max(1, rides // 30))
    elapsed = seconds_into_ride(rng, lengths)
    took = elapsed[np.cumsum(lengths) - 1]
    pickups = microseconds(begin) + (rng.random(rides) * (hours * 3600e6 - took)).astype(np.int64)
    ids = ride_ids(rng, rides)
    points = ride_points(rng, ids, lengths, elapsed, pickups)
    endless = [ids[at] for at in rng.choice(rides, max(1, rides // 16), replace=False)]
    events = points.filter(~(pl.col("ride_id").is_in(endless) & (pl.col("ride_status") == "dropoff")))
    spans = events.group_by("ride_id").agg(pl.col("timestamp").max() - pl.col("timestamp").min())
    line = pl.struct(
        "ride_id",
        "point_idx",
        "latitude",
        "longitude",
        pl.col("timestamp").dt.convert_time_zone("America/New_York").dt.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z"),
        "meter_reading",
        "meter_increment",
        "ride_status",
        "passenger_count",
    )
    over_an_hour = spans.filter(pl.col("timestamp") > timedelta(hours=1)).height
    return events.with_columns(line=line.struct.json_encode()), over_an_hour, len(endless)


def _in_order_of_arrival(rng: np.random.Generator, events: pl.DataFrame, files: int) -> tuple[pl.DataFrame, int, int]:
    """The events as they arrive, with `file` and `place` in the whole feed; how many are out of order and late."""
    count = len(events)
    times: Ints = events["timestamp"].cast(pl.Int64).to_numpy()
    over: Ints = events.select(pl.col("timestamp").max().over("ride_id").cast(pl.Int64)).to_series().to_numpy()
    arrival: Floats = times + rng.exponential(2e6, count)
    held_back = rng.random(count) < 0.04
    arrival[held_back] += rng.uniform(60e6, 300e6, held_back.sum())
    # Only rides that end early enough for something newer to arrive before the late point does.
    early = np.flatnonzero(over < times.max() - 75 * 60e6)
    stragglers = rng.choice(early, min(len(early), max(1, count // 200)), replace=False)
    arrival[stragglers] = over[stragglers] + rng.uniform(45 * 60e6, 70 * 60e6, len(stragglers))
    order = np.argsort(arrival, kind="stable")
    times, over = times[order], over[order]
    newest = np.maximum.accumulate(times)
    place = np.arange(count)
    arrived = events[order].with_columns(file=pl.Series(place * files // count), place=pl.Series(place * 1.0))
    out_of_order = newest - times > OUT_OF_ORDER // timedelta(microseconds=1)
    late = newest - over > LATE // timedelta(microseconds=1)
    return arrived, int(out_of_order.sum()), int(late.sum())


def _copies(rng: np.random.Generator, events: pl.DataFrame, files: int) -> pl.DataFrame:
    """Exact copies of some events: half right behind the first, half at the end of one of the next two files."""
    count = max(2, len(events) // 50)
    chosen = events[rng.choice(len(events), count, replace=False)]
    on = pl.Series("on", rng.integers(1, 2, count, endpoint=True) * (np.arange(count) % 2))
    file = pl.min_horizontal(pl.col("file") + on, files - 1)
    elsewhere = file > pl.col("file")
    return chosen.with_columns(
        file=file, place=pl.when(elsewhere).then(float(len(events))).otherwise(pl.col("place") + 0.5)
    )


def _malformed(rng: np.random.Generator, events: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """Lines that are no events, beside good ones; their point_idx is no good point's, so that none is lost by them."""
    each = max(1, len(events) // 1000)
    parts = []
    for expression in _FAULTS.values():
        near = events[rng.choice(len(events), each, replace=False)]
        renumbered = near.with_columns(pl.col("line").str.replace(r'"point_idx":(\d+)', r'"point_idx":9${1}00000'))
        parts.append(renumbered.with_columns(line=expression, place=pl.col("place") + 0.25))
    return pl.concat(parts), dict.fromkeys(_FAULTS, each)


def _publish(path: Path, content: bytes) -> None:
    """Write a file whole: its own name appears only when all of it is there."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)
