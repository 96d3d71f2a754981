"""Generated, labelled series: a base (`generated_bases`) with anomalies (`generated_anomalies`).

A series has one or two anomalies of one kind. A window begins about an hour before the onset, and is as long as those of the
Numenta benchmark: a tenth of the series for all windows together. Series without anomalies show how many false alarms per week
a detector gives.
"""

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import polars as pl

from benchmarks.generated_anomalies import ANOMALIES
from benchmarks.generated_bases import BASES, Floats, moments
from benchmarks.nab_corpus import LabelledSeries

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
WINDOW_SHARE = 0.1
DAYS = 21
LEAD = 12
"""Rows of a window before the onset, since labels are never exact."""


def labelled(base: str, kind: str, seed: int) -> LabelledSeries:
    """A series of a base with anomalies of a kind, which is its category."""
    random = np.random.default_rng([seed, zlib.crc32(f"{base}/{kind}".encode())])
    times = moments(random, DAYS)
    values = BASES[base](random, times)
    count = int(random.integers(1, 3))
    width = int(WINDOW_SHARE * len(times) / count)
    windows = []
    for share in (0.3, 0.65) if count > 1 else (0.4,):
        onset = int((share + random.uniform(0, 0.2)) * len(times))
        values = ANOMALIES[kind](random, times, values, onset)
        windows.append((onset - LEAD, onset - LEAD + width - 1))
    key = f"{kind}/{base}-{seed}"
    return LabelledSeries(key, readings(key, times, values), tuple(windows))


def labelled_corpus(seeds: Sequence[int]) -> list[LabelledSeries]:
    """One series for each base, kind and seed."""
    return [labelled(base, kind, seed) for seed in seeds for base in BASES for kind in ANOMALIES]


def unlabelled(base: str, seed: int, days: int) -> LabelledSeries:
    """A series of a base without anomalies."""
    random = np.random.default_rng([seed, zlib.crc32(base.encode())])
    times = moments(random, days)
    key = f"nothing/{base}-{seed}"
    return LabelledSeries(key, readings(key, times, BASES[base](random, times)), ())


def readings(key: str, times: Floats, values: Floats) -> pl.DataFrame:
    """A series as rows of `METRICS`; times are in seconds after a Monday's midnight."""
    start = int(MONDAY.timestamp() * 1e6)
    moment = pl.Series((times * 1e6).astype(np.int64) + start).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"key": [key] * len(times), "timestamp": moment, "value": values})
