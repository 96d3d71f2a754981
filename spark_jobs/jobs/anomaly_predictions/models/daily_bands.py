"""Compute how far a metric strays from what was usual at this time of day, by bands of the last seven days.

A cell is half an hour. For each cell of the last week, a model keeps the lowest and highest value. For a given cell, the range
of a previous day is that of the same cell and its two neighbours on that day. The band extends from the lower quartile of the
seven days' lows to the upper quartile of their highs, so a value is usual only if about two days went as far. So weekends need
no model of their own, a rush hour may be a little late, and one bad day does not make the next one usual.

Each cell also has an envelope: the lowest and highest value of the three hours that end with it, which have bands too. Four
views are how far the metric is outside of its bands, in its unit; each detects anomalies that the others miss:

- `stray`: the distance of the value from its band.
- `lasting_stray`: the smallest stray of the last five events, which detects a small but lasting shift.
- `lowest`, `highest`: the distance of the lowest and the highest value of the last three hours from their bands. They detect a
  metric that no longer comes down, or no longer reaches its usual height.
"""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from spark_jobs.jobs.anomaly_predictions.models.protocol import Floats, Integers, KeyRuns, flat, lists

VIEWS = ("stray", "lasting_stray", "lowest", "highest")

CELL = 30 * 60 * 1_000_000
"""Microseconds of a cell: half an hour."""
CELLS_A_DAY = 48
DAYS = 7
REACH = 1
"""Number of neighbouring cells on either side that a value is compared with."""
ENVELOPE = 6
"""Number of cells of an envelope, including its own, the last."""
QUARTILE = 0.25
KEPT_CELLS = DAYS * CELLS_A_DAY + REACH + ENVELOPE
LASTING = 5
"""Number of consecutive events that must stray: more than a glitch, and less than half an hour at one event per 5 minutes."""
_APART = 1 << 34
"""Number of cells between two keys: more than all timestamps have."""
_NO_CELL = -1 << 62
_ROUNDING = 1e-9
"""Strays smaller than this share of a value are rounding errors."""

UNTRAINED = {"cell": [], "cell_low": [], "cell_high": [], "last_strays": [0.0] * (LASTING - 1)}
"""The columns of the model: the numbers of the last week's cells that have values, the lowest and the highest of each, and the
strays of the last events."""


class Views(NamedTuple):
    """The `VIEWS` of events, one row per view and 0 if no band is known, and the bands of their values, NaN if unknown."""

    surprises: Floats
    low: Floats
    high: Floats


class DailyBands:
    """The bands of metrics, one per row of `models`, which has the columns of `UNTRAINED`."""

    def __init__(self, models: pl.DataFrame) -> None:
        cells, counts = flat(models["cell"])
        # The cells of all keys, each key's so far from the next one's that no neighbour is another key's.
        self._cells = cells + np.repeat(_APART * np.arange(len(counts)), counts)
        # Upper edges are negated. So all edges are minima, and are merged and ranked in the same way.
        self._edges = np.column_stack([flat(models["cell_low"])[0], -flat(models["cell_high"])[0]])
        self._strays = flat(models["last_strays"])[0].reshape(-1, LASTING - 1)

    def columns(self) -> dict[str, Any]:
        """Return the columns of the models."""
        keys = (self._cells + _APART // 2) // _APART
        counts = np.bincount(keys)
        kept = self._cells > np.repeat(self._cells[np.cumsum(counts) - 1], counts) - KEPT_CELLS
        keys, counts = keys[kept], np.bincount(keys[kept])
        # `+ 0.0` turns -0.0 into 0.0, so that equal states have equal bits.
        edges = (self._edges[kept] * (1.0, -1.0) + 0.0).T
        columns = (lists(column, counts) for column in (self._cells[kept] - _APART * keys, *edges))
        strays = lists(self._strays.ravel(), np.full(len(counts), LASTING - 1))
        return dict(zip(UNTRAINED, (*columns, strays), strict=True))

    def views(self, runs: KeyRuns, times: Integers, values: Floats, *, learns: bool) -> Views:
        """Compute the views of events; if `learns`, each by the key's events before it, and learn it."""
        cells = times // CELL + _APART * runs.key
        if learns:
            # A band is of cells of previous days, and an envelope of cells before, so no event changes its own.
            self._merge(cells, values)
        wanted, place = np.unique(cells, return_inverse=True)
        edges = self._with_envelopes()
        low, high, *of_envelopes = self._bands(edges, wanted).T[:, place]
        before = self._least(edges, wanted, range(1 - ENVELOPE, 0))[place, :2]
        lowest, highest = np.minimum(np.stack([values, -values]), before.T)
        rounding = _ROUNDING * np.abs(values)
        stray = _outside(values, low, -high, rounding)
        if learns:
            # Each key's last strays, and then its new ones; `now` is the place of the new ones.
            strays = np.insert(stray, np.repeat(runs.starts, LASTING - 1), self._strays.ravel())
            now = np.arange(len(stray)) + (LASTING - 1) * (runs.key + 1)
            lasting = reduce(np.minimum, (strays[now - step] for step in range(LASTING)))
            ends = now[runs.starts + runs.counts - 1]
            self._strays = strays[ends[:, None] + np.arange(2 - LASTING, 1)]
        else:
            lasting = np.minimum(stray, self._strays.min(axis=1)[runs.key])
        lowest = _outside(lowest, of_envelopes[0], -of_envelopes[1], rounding)
        highest = _outside(-highest, of_envelopes[3], -of_envelopes[2], rounding)
        return Views(np.stack([stray, lasting, lowest, highest]), low, -high)

    def _merge(self, cells: Integers, values: Floats) -> None:
        cells, edges = np.append(self._cells, cells), np.concatenate([self._edges, np.stack([values, -values], axis=1)])
        order = np.argsort(cells, kind="stable")
        self._cells, starts = np.unique(cells[order], return_index=True)
        self._edges = np.minimum.reduceat(edges[order], starts, axis=0)

    def _with_envelopes(self) -> Floats:
        """Append both ends of each envelope edge to the cells' edges, all signed; the last row is empty (infinite)."""
        envelope = self._edges.copy()
        for step in range(1, ENVELOPE):
            # Cells are sorted, so an envelope's cells are at most ENVELOPE - 1 rows before; gaps make them fewer.
            is_inside = self._cells[step:] - self._cells[:-step] < ENVELOPE
            other = np.where(is_inside[:, None], self._edges[:-step], np.inf)
            np.minimum(envelope[step:], other, out=envelope[step:])
        lowest, highest = envelope.T
        edges = np.column_stack([self._edges, lowest, -lowest, highest, -highest])
        return np.concatenate([edges, np.full((1, edges.shape[1]), np.inf)])

    def _bands(self, edges: Floats, wanted: Integers) -> Floats:
        """Compute the lower quartile over the previous days of each edge of the wanted cells; NaN if no day is known."""
        days = CELLS_A_DAY * np.arange(1, DAYS + 1)
        ordered = np.sort(self._least(edges, wanted - days[:, None], range(-REACH, REACH + 1)), axis=0)
        last = np.isfinite(ordered[:, :, 0]).sum(axis=0) - 1
        position = QUARTILE * np.maximum(last, 0)
        below, row = np.floor(position).astype(np.int64), np.arange(len(wanted))
        lower, upper = ordered[below, row], ordered[np.minimum(below + 1, np.maximum(last, 0)), row]
        with np.errstate(invalid="ignore"):
            return np.where((last >= 0)[:, None], lower + (upper - lower) * (position - below)[:, None], np.nan)

    def _least(self, edges: Floats, wanted: Integers, offsets: range) -> Floats:
        """Return the least edges of the cells at these offsets from each wanted one; infinite where there is none."""
        cells, least = np.append(self._cells, _NO_CELL), np.full((*wanted.shape, edges.shape[1]), np.inf)
        for offset in offsets:
            place = np.searchsorted(self._cells, wanted + offset)
            np.minimum(least, edges[np.where(cells[place] == wanted + offset, place, -1)], out=least)
        return least


def _outside(values: Floats, low: Floats, high: Floats, rounding: Floats) -> Floats:
    distance = np.maximum(low - values, values - high)
    return np.where(distance > rounding, distance, 0.0)
