"""Five weak views of a metric: how far each event strays from what is usual (`daily_bands`), in the metric's own unit.

- `stray`: how far the value lies outside of its band.
- `lasting_stray`: the smallest stray of the last five events: not far, but it stays.
- `lasting_change`: the smallest stray of the last five changes, be they too large (restless) or too small (stuck).
- `lowest`, `highest`: how far the lowest and the highest value of the last three hours lie outside of their bands: it
  does not come down any more, or no longer reaches its usual height.

None is much of a detector by itself, and each is blind to what another one sees.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from spark_jobs.models.daily_bands import (
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
from spark_jobs.models.runs import Floats, Integers, KeyRuns

VIEWS = ("stray", "lasting_stray", "lasting_change", "lowest", "highest")
LASTING = 5
"""How many events in a row must stray: more than a hiccup, less than half an hour of a metric every five minutes."""
_ROUNDING = 1e-9
"""Share of a value below which a stray is rounding."""


@dataclass(frozen=True)
class Trail:
    """The end of what a model has learned, a row a run.

    Attributes:
        previous: the last value; NaN before the first.
        strays, change_strays: those of the last `LASTING - 1` events; 0 before the first.
    """

    previous: Floats
    strays: Floats
    change_strays: Floats


@dataclass(frozen=True)
class Sight:
    """What the views see.

    Attributes:
        surprises: a row a view, in the order of `VIEWS`, a column an event; 0 where nothing is known.
        low, high: the band of the value; NaN where nothing is known.
        cells, trail: what the models keep once they have learned the events.
    """

    surprises: Floats
    low: Floats
    high: Floats
    cells: Cells
    trail: Trail


def look(models: pl.DataFrame, runs: KeyRuns, times: Integers, values: Floats, trail: Trail) -> Sight:
    """See each event by a model that has learned all events of its key before it."""
    before, numbers = cells_of(models), event_cells(runs, times)
    changes = _changes(values, _shifted(values, trail.previous, runs))
    cells = with_events(before, numbers, event_edges(values, changes))
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)])
    counts = np.diff(np.append(starts, len(numbers)))
    wanted, place = numbers[starts], np.repeat(np.arange(len(starts)), counts)
    own = _running_least(np.stack([values, -values], axis=1), starts, counts, range_so_far(before, wanted))
    envelope = np.minimum(own, envelope_before(cells, wanted)[place])
    stray, change, lowest, highest, low, high = _strays(usual_bands(cells, wanted), place, values, changes, envelope)
    lasting, strays = _lasting(stray, trail.strays, runs)
    lasting_change, change_strays = _lasting(change, trail.change_strays, runs)
    ends = runs.starts + runs.counts - 1
    after = Trail(values[ends], strays, change_strays)
    return Sight(np.stack([stray, lasting, lasting_change, lowest, highest]), low, high, cells, after)


def look_frozen(models: pl.DataFrame, runs: KeyRuns, times: Integers, values: Floats, trail: Trail) -> Sight:
    """See each event by its key's model as it is given, as if it were the next one."""
    cells, numbers = cells_of(models), event_cells(runs, times)
    changes = _changes(values, trail.previous[runs.run])
    wanted, place = np.unique(numbers, return_inverse=True)
    past = np.minimum(range_so_far(cells, wanted), envelope_before(cells, wanted))[place]
    envelope = np.minimum(np.stack([values, -values], axis=1), past)
    stray, change, lowest, highest, low, high = _strays(usual_bands(cells, wanted), place, values, changes, envelope)
    lasting = np.minimum(stray, trail.strays.min(axis=1)[runs.run])
    lasting_change = np.minimum(change, trail.change_strays.min(axis=1)[runs.run])
    return Sight(np.stack([stray, lasting, lasting_change, lowest, highest]), low, high, cells, trail)


def _strays(
    bands: Bands, place: Integers, values: Floats, changes: Floats, envelope: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
    """Strays of value, change, lowest and highest of each event, and the band of its value."""
    rounding = _ROUNDING * np.abs(values)
    lowest, highest = envelope[:, 0], -envelope[:, 1]
    seen = zip((values, changes, lowest, highest), bands, strict=True)
    strays = [_outside(what, low[place], high[place], rounding) for what, (low, high) in seen]
    low, high = bands.value
    return strays[0], strays[1], strays[2], strays[3], low[place], high[place]


def _outside(values: Floats, low: Floats, high: Floats, rounding: Floats) -> Floats:
    distance = np.maximum(low - values, values - high)
    return np.where(distance > rounding, distance, 0.0)


def _changes(values: Floats, previous: Floats) -> Floats:
    return np.where(np.isnan(previous), 0.0, np.abs(values - previous))


def _shifted(values: Floats, first: Floats, runs: KeyRuns) -> Floats:
    """Of each event the value before it in its run."""
    shifted = np.empty_like(values)
    shifted[1:] = values[:-1]
    shifted[runs.starts] = first
    return shifted


def _lasting(strays: Floats, last: Floats, runs: KeyRuns) -> tuple[Floats, Floats]:
    """The smallest of each `LASTING` strays in a row, and the last ones of each run."""
    width = LASTING - 1
    joined = np.empty(len(strays) + last.size)
    place = np.arange(len(strays)) + width * (runs.run + 1)
    before = (runs.starts + width * np.arange(len(runs.starts)))[:, None] + np.arange(width)
    joined[place], joined[before] = strays, last
    smallest = strays.copy()
    for step in range(1, LASTING):
        np.minimum(smallest, joined[place - step], out=smallest)
    return smallest, joined[before + runs.counts[:, None]]


def _running_least(rows: Floats, starts: Integers, counts: Integers, before: Floats) -> Floats:
    """After each row of a group the least so far, column by column; groups lie from `starts`, `counts` long."""
    least = rows.copy()
    least[starts] = np.minimum(rows[starts], before)
    for step in range(1, int(counts.max(initial=0))):
        going = starts[counts > step] + step
        least[going] = np.minimum(least[going], least[going - 1])
    return least
