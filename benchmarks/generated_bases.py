"""Kinds of metrics without anomalies, on which a detector must stay silent.

Each base generates a metric at given times. Its parameters (level, noise, strength of the daily pattern) are random too, so
that no two metrics of a base are alike. No base is modelled on a series of the Numenta benchmark.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DAY = 86_400.0
"""Seconds of a day. Times are in seconds; 0 is midnight on a Monday."""

Base = Callable[[np.random.Generator, Floats], Floats]


def white_noise(random: np.random.Generator, times: Floats) -> Floats:
    """Independent normal values around a level."""
    return random.uniform(10, 100) + random.uniform(0.5, 5) * random.normal(size=len(times))


def wandering(random: np.random.Generator, times: Floats) -> Floats:
    """A mean-reverting walk (an autoregression), as temperatures and queues do."""
    keep = random.uniform(0.9, 0.995)
    return random.uniform(20, 80) + random.uniform(0.5, 2) * _autoregression(random, len(times), keep)


def daily_load(random: np.random.Generator, times: Floats) -> Floats:
    """Busy days and quiet nights, with noise that grows with the load."""
    load = random.uniform(50, 500) * _day_shape(random, times)
    return load * np.exp(random.uniform(0.02, 0.15) * random.normal(size=len(times)))


def weekly_load(random: np.random.Generator, times: Floats) -> Floats:
    """A daily load that is lower at weekends."""
    is_weekend = (times // DAY) % 7 >= 5
    return daily_load(random, times) * np.where(is_weekend, random.uniform(0.3, 0.7), 1.0)


def bursty_counts(random: np.random.Generator, times: Floats) -> Floats:
    """Counts with bursts (negative binomial), more of them by day; mostly small, many zero."""
    mean = random.uniform(0.5, 20) * _day_shape(random, times)
    burst = random.uniform(0.3, 2.0)
    return random.poisson(mean * random.gamma(burst, 1 / burst, size=len(times))).astype(np.float64)


def heavy_tails(random: np.random.Generator, times: Floats) -> Floats:
    """Independent values, a few of them far out (Pareto)."""
    return random.uniform(1, 20) * (1.0 + random.pareto(random.uniform(1.8, 3.5), size=len(times)))


def hourly_jobs(random: np.random.Generator, times: Floats) -> Floats:
    """Idle except for a job every few hours, whose start and duration vary a little."""
    every = random.choice([3600.0, 7200.0, 4 * 3600.0, 6 * 3600.0])
    runs = np.arange(times[0], times[-1] + every, every)
    begins = runs + random.normal(0, 200, size=len(runs))
    lengths = random.uniform(600, 1500) * random.uniform(0.8, 1.2, size=len(runs))
    place = np.clip(np.searchsorted(begins, times, side="right") - 1, 0, None)
    is_running = (times >= begins[place]) & (times < begins[place] + lengths[place])
    idle = random.uniform(1, 10)
    return idle * (1 + 0.05 * random.normal(size=len(times))) + is_running * idle * random.uniform(3, 10)


def few_values(random: np.random.Generator, times: Floats) -> Floats:
    """A gauge with a coarse step, nearly always at one of three values."""
    step = random.choice([0.002, 0.1, 1.0, 5.0])
    shares = [0.03, 0.85, 0.11, 0.01]
    return step * (random.integers(5, 40) + random.choice([-1.0, 0.0, 1.0, 2.0], p=shares, size=len(times)))


def percentage(random: np.random.Generator, times: Floats) -> Floats:
    """A percentage near its limit, which it cannot pass."""
    load = 95 + 4 * _autoregression(random, len(times), 0.9) - random.exponential(2, size=len(times))
    return np.clip(load, 0, 100)


def price(random: np.random.Generator, times: Floats) -> Floats:
    """A price: a multiplicative, mean-reverting walk, somewhat higher by day, with occasional outliers."""
    level = np.exp(0.25 * _autoregression(random, len(times), 0.97) + 0.2 * random.normal(size=len(times)))
    outlier = np.where(random.random(len(times)) < 0.002, random.uniform(1.5, 3, size=len(times)), 1.0)
    return random.uniform(0.2, 2) * level * outlier * (0.7 + 0.3 * _day_shape(random, times))


def rush_hours(random: np.random.Generator, times: Floats) -> Floats:
    """A speed in whole numbers that drops in most rush hours of working days, at varying times."""
    free = random.uniform(60, 80)
    speed = free + random.uniform(1, 4) * random.normal(size=len(times))
    day = (times // DAY).astype(np.int64)
    number = day - day[0]
    for hour in (8.0, 17.5):
        centre = (hour + random.normal(0, 0.3, size=number[-1] + 1))[number]
        depth = (free * random.uniform(0.1, 0.6, size=number[-1] + 1))[number]
        is_there = (random.random(number[-1] + 1) < 0.85)[number] & (day % 7 < 5)
        speed -= is_there * depth * np.exp(-(((times % DAY) / 3600 - centre) ** 2) / 0.5)
    return np.round(np.maximum(speed, 3))


def sawtooth(random: np.random.Generator, times: Floats) -> Floats:
    """A level that rises and is reset (a disk, a cache), with a period other than a day."""
    period = random.uniform(0.15, 0.6) * DAY
    phase = (times / period + 0.02 * np.cumsum(random.normal(size=len(times))) / np.sqrt(len(times))) % 1.0
    return random.uniform(10, 1000) * (0.2 + phase + 0.02 * random.normal(size=len(times)))


BASES: dict[str, Base] = {
    base.__name__: base
    for base in (
        white_noise,
        wandering,
        daily_load,
        weekly_load,
        bursty_counts,
        heavy_tails,
        hourly_jobs,
        few_values,
        percentage,
        price,
        rush_hours,
        sawtooth,
    )
}


def moments(random: np.random.Generator, days: int) -> Floats:
    """Times of a metric: mostly every five minutes, or every ten or sixty; one metric in four has gaps of hours."""
    step = random.choice([300.0, 300.0, 300.0, 600.0, 3600.0])
    length = days * (4 if step == 3600.0 else 1) * DAY
    times = np.arange(0.0, length, step)
    if random.random() < 0.25:
        is_there = np.ones(len(times), dtype=bool)
        for start in random.uniform(0, length, size=int(random.integers(2, 8))):
            is_there &= ~((times >= start) & (times < start + random.uniform(1, 12) * 3600))
        times = times[is_there]
    return times


def _day_shape(random: np.random.Generator, times: Floats) -> Floats:
    """A daily pattern from a low value at night to 1 by day."""
    night, peak = random.uniform(0.1, 0.7), random.uniform(0, DAY)
    wave = (1 + np.cos(2 * np.pi * (times - peak) / DAY)) / 2
    return night + (1 - night) * wave ** random.uniform(0.5, 2.0)


def _autoregression(random: np.random.Generator, length: int, keep: float) -> Floats:
    """Unit variance: `x = keep * x + noise`."""
    noise = random.normal(size=length) * np.sqrt(1 - keep * keep)
    walk, now = np.empty(length), float(random.normal())
    for row, step in enumerate(noise.tolist()):
        now = keep * now + step
        walk[row] = now
    return walk
