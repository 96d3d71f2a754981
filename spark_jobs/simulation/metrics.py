"""Simulate metrics with a sample every five minutes, and planted anomalies.

A first call writes the history of each series as one CSV file, `timestamp,value`, with the key as its path
(`servers/web-1.csv.gz`). Ingest reads a file once, so it must not change. Further calls therefore write NDJSON with a field
`key`, with all series in the order of arrival. The truncated file is at the top of the folder; its name gives the next call its
start.

A series has a daily cycle, a faster one of 40 to 90 minutes, and noise. Its parameters depend only on its key, so a later call
continues the series.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

import numpy as np
import polars as pl

from keyfold.times import from_micros, to_times
from spark_jobs.simulation.contract import DAY, SECOND, Floats, Format, Ints, SimulatedEvents, SimulationRequest
from spark_jobs.simulation.faults import csv_field, csv_time_faults, json_faults, json_field

STEP = 300 * SECOND
"""Time between two samples of a series, in microseconds."""

SERIES = (
    "servers/web-1",
    "servers/web-2",
    "servers/database",
    "servers/queue",
    "network/edge-1",
    "network/edge-2",
    "shop/orders",
    "shop/logins",
    "sensors/boiler",
    "sensors/cold-store",
    "traffic/north",
    "traffic/south",
)
"""Keys of the first series; further ones are servers/host-00012, servers/host-00013, …"""

AnomalyKind = Literal["spike", "level shift", "flat line", "frequency change"]

_CHARACTERS = 288  # fixed seed, so that a series has the same parameters in every call


@dataclass(frozen=True)
class PlantedAnomaly:
    """An anomaly, from its first sample to its last."""

    key: str
    kind: AnomalyKind
    start: datetime
    end: datetime


def metrics_table(
    rng: np.random.Generator, series: int, times: Ints
) -> tuple[pl.DataFrame, tuple[PlantedAnomaly, ...]]:
    """Make clean samples of every series at every time, sorted by time, with planted anomalies.

    Args:
        series: number of series.
        times: sample times five minutes apart, in microseconds since 1970.

    Returns:
        The columns of the stream `metrics`, and the anomalies sorted by time.
    """
    keys = _keys(series)
    character = np.random.default_rng(_CHARACTERS).random((series, 5)).T[:, :, None]
    level = 20 + 60 * character[0]
    period = (40 + 50 * character[3]) * 60 * SECOND
    fast = _fast(level, period, times)
    daily = (0.1 + 0.2 * character[1]) * level * np.sin(2 * np.pi * (times / DAY + character[2]))
    values = level + daily + fast + rng.normal(0, 0.015, (series, len(times))) * level
    planted = []
    for number, at in enumerate(rng.permutation(series)[: min(series, max(4, series // 2))]):
        kind = get_args(AnomalyKind)[number % 4]
        lasts = int(rng.integers(1, 3, endpoint=True)) if kind == "spike" else min(72, max(12, len(times) // 12))
        begins = int(rng.uniform(0.5, 0.8) * len(times))
        window = slice(begins, begins + lasts)
        quicker = _fast(level[at], period[at] / 3, times[window]) - fast[at, window]
        values[at, window] = _anomalous(kind, values[at, window], float(level[at, 0]), quicker)
        begin, end = (from_micros(times[window][edge]) for edge in (0, -1))
        planted.append(PlantedAnomaly(keys[at], kind, begin, end))
    table = pl.DataFrame(
        {
            "key": pl.Series(keys, dtype=pl.String).gather(np.tile(np.arange(series), len(times))),
            "timestamp": to_times(np.repeat(times, series)),
            "value": np.round(values.T.ravel(), 3),
        }
    )
    return table, tuple(sorted(planted, key=lambda one: (one.start, one.key)))


def _keys(count: int) -> list[str]:
    return [*SERIES[:count], *(f"servers/host-{number:05}" for number in range(len(SERIES), count))]


def _fast(level: Floats, period: Floats, times: Ints) -> Floats:
    return 0.08 * level * np.sin(2 * np.pi * times / period)


def _anomalous(kind: AnomalyKind, values: Floats, level: float, quicker: Floats) -> Floats:
    """Apply an anomaly to the values of a window; adding `quicker` makes the fast cycle three times as fast."""
    if kind == "spike":
        return values + level
    if kind == "level shift":
        return values + 0.5 * level
    if kind == "flat line":
        return np.full(len(values), values[0])
    return values + quicker


def make(rng: np.random.Generator, request: SimulationRequest) -> SimulatedEvents:
    """Make the clean events of a call, as lines."""
    table, anomalies = metrics_table(rng, request.size, request.grid(STEP))
    time = pl.col("timestamp").cast(pl.Int64)
    if request.first:
        stamp = pl.col("timestamp").dt.strftime("%Y-%m-%d %H:%M:%S")
        line = pl.concat_str(stamp, pl.col("value").cast(pl.String), separator=",")
        form = Format("csv", _CSV_FAULTS, "timestamp,value")
    else:
        stamp = pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        line = pl.struct("key", stamp, "value").struct.json_encode()
        form = Format("ndjson", _JSON_FAULTS)
    events = table.select(time=time, over=time, key=pl.col("key")).with_columns(table.select(line.alias(form.ending)))
    return SimulatedEvents(events, (form,), anomalies, file_by_key=request.first)


_CSV_FAULTS = {
    "too few fields": pl.col("line").str.head(19),
    "no value": csv_field(1, ""),
    "value is a word": csv_field(1, "plenty"),
} | csv_time_faults(0, "2199-12-31 23:55:00")

_JSON_FAULTS = json_faults("timestamp") | {
    "empty key": json_field("key", '""'),
    "no value": json_field("value", "null"),
    "value is a word": json_field("value", '"plenty"'),
}
