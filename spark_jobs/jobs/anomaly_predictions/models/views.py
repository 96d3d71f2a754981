"""Compute four views of a metric: how far each event strays outside of the bands of `daily_bands`, in the metric's unit.

- `stray`: the distance of the value from its band.
- `lasting_stray`: the smallest stray of the last five events, which detects a small but lasting shift.
- `lowest`, `highest`: the distance of the lowest and the highest value of the last three hours from their bands. They detect a
  metric that no longer comes down, or no longer reaches its usual height.

Each view is a weak detector, but each detects anomalies that the others miss.
"""

from typing import NamedTuple

import numpy as np
import polars as pl

from spark_jobs.jobs.anomaly_predictions.models.daily_bands import (
    Bands,
    Cells,
    cells_of,
    envelope_before,
    event_cells,
    event_edges,
    range_so_far,
    usual_bands,
    with_events,
)
from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns

VIEWS = ("stray", "lasting_stray", "lowest", "highest")
LASTING = 5
"""Number of consecutive events that must stray: more than a glitch, and less than half an hour at one event per 5 minutes."""
_ROUNDING = 1e-9
"""Strays smaller than this share of a value are rounding errors."""


class Sight(NamedTuple):
    """The views of events: one row per view, in the order of `VIEWS`, and one column per event; 0 if no band is known.

    `low` and `high` are the band of the value; NaN if no band is known.
    """

    surprises: Floats
    low: Floats
    high: Floats


class Path(NamedTuple):
    """Events seen and learned one after the other.

    Attributes:
        sight: the views of each event by a model that has learned all events of its key before it.
        cells, last_strays: the models' state after the events; of each run the strays of its last `LASTING - 1` values.
    """

    sight: Sight
    cells: Cells
    last_strays: Floats


def score_and_learn(
    models: pl.DataFrame, runs: KeyRuns, times: Integers, values: Floats, strays_before: Floats
) -> Path:
    """Compute the views of each event by a model that has learned all events of its key before it.

    `strays_before` has the strays of the last `LASTING - 1` values of each run's model; 0 if there is none.
    """
    before, numbers = cells_of(models), event_cells(runs, times)
    cells = with_events(before, numbers, event_edges(values))
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)])
    counts = np.diff(np.append(starts, len(numbers)))
    wanted, place = numbers[starts], np.repeat(np.arange(len(starts)), counts)
    ranges = _running_least(np.stack([values, -values], axis=1), starts, counts, range_so_far(before, wanted))
    envelope = np.minimum(ranges, envelope_before(cells, wanted, wanted)[place])
    stray, lowest, highest, low, high = _strays(usual_bands(cells, wanted), place, values, envelope)
    strays = _joined(stray, strays_before, runs)
    sight = Sight(np.stack([stray, _smallest(strays, stray, runs), lowest, highest]), low, high)
    return Path(sight, cells, _last(strays, runs))


def score_frozen(models: pl.DataFrame, runs: KeyRuns, times: Integers, values: Floats, strays_before: Floats) -> Sight:
    """Compute the views of each event by its key's model, as if it were the next event."""
    cells, numbers = cells_of(models), event_cells(runs, times)
    wanted, place = np.unique(numbers, return_inverse=True)
    past = envelope_before(cells, wanted, wanted + 1)[place]
    envelope = np.minimum(np.stack([values, -values], axis=1), past)
    stray, lowest, highest, low, high = _strays(usual_bands(cells, wanted), place, values, envelope)
    lasting = np.minimum(stray, strays_before.min(axis=1)[runs.run])
    return Sight(np.stack([stray, lasting, lowest, highest]), low, high)


def _strays(
    bands: Bands, place: Integers, values: Floats, envelope: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return the strays of each event's value, lowest and highest, and the band of its value."""
    rounding = _ROUNDING * np.abs(values)
    lowest, highest = envelope[:, 0], -envelope[:, 1]
    seen = zip((values, lowest, highest), bands, strict=True)
    strays = [_outside(what, low[place], high[place], rounding) for what, (low, high) in seen]
    low, high = bands.value
    return strays[0], strays[1], strays[2], low[place], high[place]


def _outside(values: Floats, low: Floats, high: Floats, rounding: Floats) -> Floats:
    distance = np.maximum(low - values, values - high)
    return np.where(distance > rounding, distance, 0.0)


def _joined(strays: Floats, last: Floats, runs: KeyRuns) -> Floats:
    """Put the strays of each run after the last ones of its model."""
    width = LASTING - 1
    joined = np.empty(len(strays) + last.size)
    joined[np.arange(len(strays)) + width * (runs.run + 1)] = strays
    joined[(runs.starts + width * np.arange(len(runs.starts)))[:, None] + np.arange(width)] = last
    return joined


def _smallest(joined: Floats, strays: Floats, runs: KeyRuns) -> Floats:
    """Return the minimum of each stray and the `LASTING - 1` before it."""
    end = runs.starts[runs.run] + (LASTING - 1) * (runs.run + 1) + runs.rank
    smallest = strays.copy()
    for step in range(1, LASTING):
        np.minimum(smallest, joined[end - step], out=smallest)
    return smallest


def _last(joined: Floats, runs: KeyRuns) -> Floats:
    width = LASTING - 1
    return joined[(runs.starts + width * np.arange(len(runs.starts)) + runs.counts)[:, None] + np.arange(width)]


def _running_least(rows: Floats, starts: Integers, counts: Integers, before: Floats) -> Floats:
    """Return the running minimum of each column within groups; group i has `counts[i]` rows from `starts[i]`."""
    least = rows.copy()
    least[starts] = np.minimum(rows[starts], before)
    for step in range(1, int(counts.max(initial=0))):
        going = starts[counts > step] + step
        least[going] = np.minimum(least[going], least[going - 1])
    return least
