"""Kinds of anomalies to plant in a metric, scaled to the metric's own spread.

Each kind changes the values from an onset on, for a while or for good, and returns the changed values. Sizes are in deviations
of the values around the median of their hour of the day, so that a spike in a quiet metric is small and one in a wild metric is
large.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.generated_bases import DAY, Floats

Anomaly = Callable[[np.random.Generator, Floats, Floats, int], Floats]
"""Takes a random generator, times, values and the row of the onset; returns the changed values."""

HOUR = 3600.0


def spike(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """One to three values far out, to the side that is not bounded by zero."""
    size = random.uniform(6, 15) * _spread(times, values, onset)
    return _with(values, slice(onset, onset + int(random.integers(1, 4))), lambda part: part + size)


def dip(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """An outage: the lowest value ever, or zero, for up to six hours."""
    low = min(0.0, float(values.min())) if random.random() < 0.7 else float(values.min())
    return _with(values, _for(times, onset, random.uniform(0.5, 6) * HOUR), lambda part: np.full_like(part, low))


def plateau(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """Higher values for some hours."""
    size = random.uniform(2, 5) * _spread(times, values, onset)
    return _with(values, _for(times, onset, random.uniform(2, 12) * HOUR), lambda part: part + size)


def level_shift(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """A new level from now on."""
    size = random.choice([-1, 1]) * random.uniform(2, 5) * _spread(times, values, onset)
    return _with(values, slice(onset, None), lambda part: part + size)


def drift(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """A new level that is reached over a day or two: a leak."""
    size = random.uniform(3, 7) * _spread(times, values, onset)
    length = random.uniform(1, 2) * DAY
    return values + size * np.clip((times - times[onset]) / length, 0, 1)


def noisier(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """Noise several times as strong for some hours."""
    size = random.uniform(2, 4) * _spread(times, values, onset)
    part = _for(times, onset, random.uniform(4, 16) * HOUR)
    return _with(values, part, lambda rows: rows + size * random.normal(size=len(rows)))


def stuck(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """A sensor that repeats its last value for half a day to a day."""
    part = _for(times, onset, random.uniform(12, 24) * HOUR)
    return _with(values, part, lambda rows: np.full_like(rows, values[onset]))


def missing_season(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """For a day, the metric repeats the values of twelve hours before: night values by day, day values by night."""
    part = _for(times, onset, DAY)
    source = np.searchsorted(times, times[part] - DAY / 2)
    return _with(values, part, lambda rows: values[np.minimum(source, onset)][: len(rows)])


def denser(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """High values, each of which occurred before, follow one another for half a day."""
    low, high = (float(np.quantile(values[:onset], share)) for share in (0.97, 0.995))
    part = _for(times, onset, random.uniform(6, 14) * HOUR)
    often = random.uniform(0.3, 0.7)
    return _with(
        values,
        part,
        lambda rows: np.where(random.random(len(rows)) < often, random.uniform(low, high, len(rows)), rows),
    )


def rescaled(random: np.random.Generator, times: Floats, values: Floats, onset: int) -> Floats:
    """The concept changes for good: twice to four times the distance from the lowest values, or a third of it."""
    low = np.quantile(values[:onset], 0.02)
    factor = random.choice([0.3, random.uniform(2, 4)])
    return _with(values, slice(onset, None), lambda part: low + factor * (part - low))


ANOMALIES: dict[str, Anomaly] = {
    kind.__name__: kind
    for kind in (spike, dip, plateau, level_shift, drift, noisier, stuck, missing_season, denser, rescaled)
}


def _for(times: Floats, onset: int, seconds: float) -> slice:
    return slice(onset, int(np.searchsorted(times, times[onset] + seconds)))


def _with(values: Floats, part: slice, change: Callable[[Floats], Floats]) -> Floats:
    changed = values.copy()
    changed[part] = change(values[part])
    return changed


def _spread(times: Floats, values: Floats, onset: int) -> float:
    """Deviation of the values before the onset around their median at that hour of the day; never zero."""
    hour = (times[:onset] % DAY // HOUR).astype(np.int64)
    middles = np.array([np.median(values[:onset][hour == one]) if (hour == one).any() else 0.0 for one in range(24)])
    around = values[:onset] - middles[hour]
    wide = np.quantile(np.abs(around), 0.9) / 1.645
    return float(max(wide, 0.05 * np.abs(middles).max(), 1e-3))
