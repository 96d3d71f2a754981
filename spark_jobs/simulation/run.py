"""Write a simulated stream into a landing folder, with the faults of real feeds, and count them.

Each call writes files in the order of arrival, and one more that is truncated. Events are out of order, late, duplicated (if the
stream detects duplicates) and malformed (`feed.faults_of`).
"""

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from keyfold import KeyfoldError
from keyfold.times import micros
from spark_jobs.simulation.feed import Arrival, Simulator, feed
from spark_jobs.simulation.measurements import metrics_table, weather_table
from spark_jobs.simulation.payments import payments_table
from spark_jobs.simulation.rides import rides_table
from spark_jobs.simulation.sales import sales_table
from spark_jobs.simulation.telemetry import fleet_table
from spark_jobs.streams import METRICS, PAYMENTS, RIDE_POINTS, SALES, TELEMETRY, WEATHER

SIMULATORS: dict[str, Simulator] = {
    one.stream.name: one
    for one in (
        Simulator(
            RIDE_POINTS, "rides", rides_table, size=200, hours=(3, 6), least_hours=2.5, files=24,
            wrong={"latitude": 999.0, "ride_status": "teleporting"},
            # Late points arrive when even a ride without dropoff is closed: after 30 minutes of silence and 10 of watermark
            # delay. By the hours, the second call starts at the same time as that of the weather.
            arrival=Arrival(over=pl.col("timestamp").max().over("ride_id")),
        ),
        Simulator(
            WEATHER, "stations", weather_table, size=6, hours=(72, 6), least_hours=6, files=8, ending="csv",
            wrong={"humid": 250.0, "pressure": 1.2},
            arrival=Arrival(delay=120, held_back=(70, 130), out_of_order=30, late=180, late_by=(250, 290)),
        ),
        Simulator(
            METRICS, "series", metrics_table, size=12, hours=(72, 6), least_hours=3, files=12,
            arrival=Arrival(held_back=(6, 20), late=60, late_by=(70, 100)),
        ),
        Simulator(
            TELEMETRY, "vehicles", fleet_table, size=20, hours=(3, 3), least_hours=2, files=24,
            wrong={"latitude": 95.0, "speed": -12.5, "fuel_level": -3.0, "acceleration": -412.0, "bearing": 361.5,
                   "engine_temperature": 999.0},
        ),
        Simulator(
            SALES, "sales", sales_table, size=6_000, hours=(72, 6), least_hours=6, files=24, least_size=20,
            wrong={"quantity": 2.5}, arrival=Arrival(delay=20, held_back=(2, 15), late=180, late_by=(240, 300)),
        ),
        Simulator(
            PAYMENTS, "cards", payments_table, size=500, hours=(48, 6), least_hours=3, files=16,
            wrong={"amount": 0.0}, arrival=Arrival(delay=5, held_back=(2, 6), late=15, late_by=(20, 60)),
        ),
    )
}  # fmt: skip
"""The simulators by stream."""


@dataclass(frozen=True, kw_only=True)
class SimulationSummary:
    """What one call wrote. Lines of the file that is cut short are not counted.

    Attributes:
        stream: the stream's name.
        size: number of rides, stations, series, vehicles, sales or cards; see `Simulator.counted`.
        files: number of readable files, beside `unreadable_files`.
        start: no event is earlier.
        end: no well-formed event is later; the next call into the same folder starts here.
        rows: lines without headers; the sum of `events`, `duplicates` and `malformed`.
        events: well-formed events, each counted once.
        duplicates: further exact copies of events.
        malformed: lines that are not valid events; `malformed_by_fault` has the number by fault.
        out_of_order: events that arrive after one that is newer by more than `Arrival.out_of_order`; includes the late ones.
        late: events that arrive after one that is newer by more than `Arrival.late`.
    """

    stream: str
    size: int
    files: int
    unreadable_files: int
    start: datetime
    end: datetime
    rows: int
    events: int
    duplicates: int
    malformed: int
    malformed_by_fault: Mapping[str, int]
    out_of_order: int
    late: int


def simulate(
    stream: str,
    to: Path,
    *,
    size: int | None = None,
    seed: int = 0,
    start: datetime | None = None,
    hours: float | None = None,
    files: int | None = None,
    cut_short: bool = True,
) -> SimulationSummary:
    """Write events of a stream with faults, as files into a landing folder.

    The same arguments write the same bytes into an empty folder. Without `start`, events begin where those in the folder end,
    or such that they end some hours before now, whichever is later. So the data of a demo are recent, and a second call, with
    another seed, continues in time. From the third call in a row on, event time is past now.

    Args:
        stream: one of `SIMULATORS`.
        to: the folder, created if needed; files are written atomically.
        size: number of rides (ride_points), stations (weather), series (metrics), vehicles (telemetry), sold lines
            (sales) or cards (payments). It changes the volume, and not the time span.
        seed: seed of the random generator.
        start: the earliest event time, with an offset.
        hours: span of event time.
        files: number of readable files, at least four.
        cut_short: whether an archive that cannot be read is written beside them.

    Returns:
        The counts of what was written.

    Raises:
        KeyfoldError: an argument is out of range.
    """
    if stream not in SIMULATORS:
        raise KeyfoldError(f"simulate: no stream {stream!r}; streams there: {', '.join(SIMULATORS)}")
    simulator = SIMULATORS[stream]
    size = simulator.size if size is None else size
    hours = simulator.hours[any(to.glob(f"{stream}-*"))] if hours is None else hours
    files = simulator.files if files is None else files
    _check(simulator, size, hours, files, start)
    begin = (start or _next_start(simulator, to, hours)).astimezone(UTC)
    # Whole seconds, as in the file names, from which the next call continues.
    end = (begin + timedelta(hours=hours)).replace(microsecond=0)
    rng = np.random.default_rng(seed)
    table = simulator.table(rng, size, micros(begin), micros(end))
    files = min(files, len(table))
    lines, counts = feed(rng, simulator, table, files)
    to.mkdir(parents=True, exist_ok=True)
    header = ",".join(simulator.stream.schema.names) + "\n" if simulator.ending == "csv" else ""
    for (number,), part in lines.group_by("file", maintain_order=True):
        text = (header + "".join(f"{line}\n" for line in part["line"])).encode()
        stem = f"{stream}-{begin:%Y%m%dT%H%M%SZ}-{end:%Y%m%dT%H%M%SZ}-seed{seed}-{number:04}"
        _write_whole(to / f"{stem}.{simulator.ending}.gz", _zipped(text))
        if cut_short and number == files // 2:
            _write_whole(to / f"{stem}-cut-short.{simulator.ending}.gz", _zipped(text)[: len(_zipped(text)) // 2])
    return SimulationSummary(
        stream=stream, size=size, files=files, unreadable_files=int(cut_short), start=begin, end=end, **counts
    )


def _check(simulator: Simulator, size: int, hours: float, files: int, start: datetime | None) -> None:
    for name, value, least in (
        (simulator.counted, size, simulator.least_size),
        ("hours", hours, simulator.least_hours),
        ("files", files, 4),
    ):
        if value < least:
            raise KeyfoldError(f"simulate: {name} is {value}; it must be {least} at least")
    if start is not None and start.tzinfo is None:
        raise KeyfoldError(f"simulate: start {start} has no offset from UTC; give one, as in 2026-01-01T00:00:00+00:00")


def _next_start(simulator: Simulator, to: Path, hours: float) -> datetime:
    ends = [
        datetime.strptime(found[1], "%Y%m%dT%H%M%S%z")
        for file in to.glob(f"{simulator.stream.name}-*")
        if (found := re.match(rf"{simulator.stream.name}-\w+-(\w+Z)-seed", file.name))
    ]
    back = timedelta(hours=hours + simulator.hours[1])  # room for a second call before now
    return max([datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - back, *ends])


def _zipped(text: bytes) -> bytes:
    # Without a time in the header, the same events give the same bytes.
    return gzip.compress(text, 6, mtime=0)


def _write_whole(path: Path, content: bytes) -> None:
    # A landing folder is read at any time: a file has its name once it is whole, and a hidden one is not listed.
    part = path.with_name(f".{path.name}")
    part.write_bytes(content)
    part.replace(path)
