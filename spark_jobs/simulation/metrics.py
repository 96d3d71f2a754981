"""Simulate metrics with a value every five minutes.

A series has a daily cycle and noise. Its parameters depend only on its key, so a later call continues it. In one series of three,
a few values in the second half are twice as high as usual.
"""

import numpy as np
import polars as pl

from keyfold.times import to_times
from spark_jobs.simulation.feed import DAY, SECOND

_EVERY = 300 * SECOND
_CHARACTERS = 288  # fixed seed, so that a series has the same parameters in every call


def metrics_table(rng: np.random.Generator, series: int, begin: int, end: int) -> pl.DataFrame:
    """Make clean values of every series every five minutes, sorted by time, with the columns of the stream `metrics`."""
    times = np.arange(-(-begin // _EVERY) * _EVERY, end, _EVERY, dtype=np.int64)
    level, swing, phase = np.random.default_rng(_CHARACTERS).random((series, 3)).T[:, :, None]
    level = 20 + 60 * level
    daily = (0.1 + 0.2 * swing) * np.sin(2 * np.pi * (times / DAY + phase))
    values = level * (1 + daily + rng.normal(0, 0.015, (series, len(times))))
    for row in rng.permutation(series)[: max(1, series // 3)]:
        begins = int(rng.uniform(0.5, 0.9) * len(times))
        values[row, begins : begins + 3] *= 2
    keys = pl.Series([f"servers/host-{number:05}" for number in range(series)], dtype=pl.String)
    return pl.DataFrame(
        {
            "key": keys.gather(np.tile(np.arange(series), len(times))),
            "timestamp": to_times(np.repeat(times, series)),
            "value": np.round(values.T.ravel(), 3),
        }
    )
