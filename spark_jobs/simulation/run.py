"""Write a simulated stream into a landing folder, with the faults of real feeds, and count them.

Each call writes files in the order of arrival. Some events are out of order, late or duplicated (if the stream detects
duplicates). Some lines are malformed, and one file is truncated.
"""

import gzip
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from keyfold import KeyfoldError
from keyfold.lakehouse.files import write_whole
from keyfold.times import micros
from spark_jobs.simulation import metrics, payments, rides, sales, telemetry, weather
from spark_jobs.simulation.contract import Arrival, SimulatedEvents, SimulationRequest, SimulationSummary, Simulator
from spark_jobs.simulation.feed import feed

SIMULATORS: dict[str, Simulator] = {
    one.name: one
    for one in (
        # Late points arrive when even a ride without dropoff is closed: after 30 minutes of silence and 10 of watermark
        # delay. By the hours, the second call starts at the same time as that of the weather.
        Simulator("ride_points", "rides", rides.make, 200, (3, 6), least_hours=2.5, files=24, prefix="rides"),
        Simulator(
            "weather",
            "stations",
            weather.make,
            6,
            (72, 6),
            least_hours=6,
            files=8,
            arrival=Arrival(delay=120, held_back=(70, 130), out_of_order=30, late=180, late_by=(250, 290)),
        ),
        # A file of the first call has one series, so order of arrival is known only within a series (`by_key`).
        Simulator(
            "metrics",
            "series",
            metrics.make,
            len(metrics.SERIES),
            (72, 6),
            least_hours=3,
            files=12,
            arrival=Arrival(held_back=(6, 20), late=60, late_by=(70, 100), by_key=True),
        ),
        Simulator("telemetry", "vehicles", telemetry.make, 20, (3, 3), least_hours=2, files=24),
        Simulator(
            "sales",
            "sales",
            sales.make,
            6_000,
            (72, 6),
            least_hours=6,
            files=24,
            least_size=20,
            copies=False,
            arrival=Arrival(delay=20, held_back=(2, 15), late=180, late_by=(240, 300)),
        ),
        Simulator(
            "payments",
            "cards",
            payments.make,
            500,
            (48, 6),
            least_hours=3,
            files=16,
            arrival=Arrival(delay=5, held_back=(2, 6), late=15, late_by=(20, 60)),
        ),
    )
}
"""The simulators by stream."""


def simulate(
    stream: str,
    to: Path,
    *,
    size: int | None = None,
    seed: int = 0,
    start: datetime | None = None,
    hours: float | None = None,
    files: int | None = None,
    compress: bool = True,
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
        files: number of readable files, at least four; a first call for metrics always writes one per series.
        compress: gzip the files.

    Returns:
        The counts of what was written.

    Raises:
        KeyfoldError: an argument is out of range.
    """
    if stream not in SIMULATORS:
        raise KeyfoldError(f"simulate: no stream {stream!r}; streams there: {', '.join(SIMULATORS)}")
    simulator = SIMULATORS[stream]
    first = not any(to.glob(f"{simulator.stem}-*"))
    size = simulator.size if size is None else size
    hours = simulator.hours[0 if first else 1] if hours is None else hours
    files = simulator.files if files is None else files
    _check(simulator, size, hours, files, start)
    begin = (start or _next_start(simulator, to, hours)).astimezone(UTC)
    # Whole seconds, as in the file names, from which the next call continues.
    end = (begin + timedelta(hours=hours)).replace(microsecond=0)
    rng = np.random.default_rng(seed)
    made = simulator.make(rng, SimulationRequest(size, micros(begin), micros(end), first))
    files = made.events["key"].n_unique() if made.file_by_key else min(files, len(made.events))
    lines, counts = feed(rng, made, simulator.arrival, files, copies=simulator.copies)
    stem = f"{simulator.stem}-{begin:%Y%m%dT%H%M%SZ}-{end:%Y%m%dT%H%M%SZ}-seed{seed}"
    to.mkdir(parents=True, exist_ok=True)
    for number, (name, ending, text) in enumerate(_texts(made, lines, stem)):
        write_whole(to / f"{name}{ending}{'.gz' * compress}", _zipped(text) if compress else text)
        if number == files // 2:
            cut = _zipped(text)
            write_whole(to / f"{stem}-{number:04}-cut-short{ending}.gz", cut[: len(cut) // 2])
    return SimulationSummary(
        stream=stream,
        size=size,
        files=files,
        unreadable_files=1,
        start=begin,
        end=end,
        planted=made.planted,
        **vars(counts),
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
        for file in to.glob(f"{simulator.stem}-*")
        if (found := re.match(rf"{simulator.stem}-\w+-(\w+Z)-seed", file.name))
    ]
    back = timedelta(hours=hours + simulator.hours[1])  # room for a second call before now
    return max([datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - back, *ends])


def _texts(made: SimulatedEvents, lines: pl.DataFrame, stem: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield the name, ending and content of each file."""
    for (number,), part in lines.group_by("file", maintain_order=True):
        form = made.formats[int(str(number)) % len(made.formats)]
        rows = [form.header, *part["line"]] if form.header else part["line"]
        name = part["key"][0] if made.file_by_key else f"{stem}-{number:04}"
        yield name, f".{form.ending}", "".join(f"{row}\n" for row in rows).encode()


def _zipped(text: bytes) -> bytes:
    # Without a time in the header, the same events give the same bytes.
    return gzip.compress(text, 6, mtime=0)
