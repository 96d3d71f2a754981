"""Compute bands of usual values by time of day, from the last seven days.

A cell is half an hour. For each cell of the last week, a model keeps the lowest and highest value. For a given cell, the range of a previous day is that of the same cell and its two
neighbours on that day. The band extends from the lower quartile of the seven days' lows to the upper quartile of their highs,
so a value is usual only if about two days went as far. So weekends need no model of their own, a rush hour may be a little
late, and one bad day does not make the next one usual.

Each cell also has an envelope: the lowest and highest value of the three hours that end with it. Envelopes have bands too.
They detect a low that lasts for three hours, although each of its values is usual at this time of day.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns

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

EDGES = ("cell_low", "cell_high")
"""The columns of edges: lowest and highest value.

Each has one number per cell up to the newest; NaN if a cell has no value."""
_SIGNS = np.array([1.0, -1.0])
"""Upper edges are stored negated. So all edges are minima, and are merged and ranked in the same way."""

_KEY_STEP = 2**32
_ZERO_CELL = 2**31
"""Added to a cell's number, which is negative before 1970."""
_CELLS_AT_ONCE = 4_096


@dataclass(frozen=True)
class Cells:
    """The cells of many keys: sorted numbers, made of the row of the key's model and the cell, and two signed edges each."""

    number: Integers
    edges: Floats


class Bands(NamedTuple):
    """The lower and upper ends of the bands, one row per requested cell; NaN if no day is known.

    `lowest` and `highest` are the bands of the envelope's two edges.
    """

    value: tuple[Floats, Floats]
    lowest: tuple[Floats, Floats]
    highest: tuple[Floats, Floats]


def cells_of(models: pl.DataFrame) -> Cells:
    """Read the cells from the columns `EDGES` of the models; `cell` is the newest."""
    counts = models[EDGES[0]].list.len().to_numpy().astype(np.int64)
    rows, ends = np.repeat(np.arange(models.height), counts), np.cumsum(counts)
    newest = models["cell"].fill_null(0).to_numpy()
    cell = newest[rows] - (ends[rows] - 1 - np.arange(len(rows)))
    edges = np.stack([models[name].explode(empty_as_null=False).to_numpy() for name in EDGES], axis=1)
    is_there = ~np.isnan(edges[:, 0])
    return Cells(_number(rows, cell)[is_there], edges[is_there] * _SIGNS)


def event_cells(runs: KeyRuns, times: Integers) -> Integers:
    """Return the number of each event's cell."""
    return _number(runs.model[runs.run], times // CELL)


def event_edges(values: Floats) -> Floats:
    """Return the signed edges of a cell with this event alone, one row per event."""
    return np.stack([values, values], axis=1) * _SIGNS


def with_events(cells: Cells, numbers: Integers, edges: Floats) -> Cells:
    """Merge events into the cells."""
    if not len(numbers):
        return cells
    number = np.concatenate([cells.number, numbers])
    order = np.argsort(number, kind="stable")
    number = number[order]
    starts = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
    return Cells(number[starts], np.minimum.reduceat(np.concatenate([cells.edges, edges])[order], starts, axis=0))


def cell_columns(cells: Cells, rows: int) -> list[pl.Series]:
    """Build the columns `cell` and `EDGES` of this number of models, with the cells of each model's last week."""
    row, cell = cells.number // _KEY_STEP, cells.number % _KEY_STEP - _ZERO_CELL
    ends = np.searchsorted(row, np.arange(rows), side="right")
    knows = np.diff(ends, prepend=0) > 0
    newest = np.where(knows, cell[np.maximum(ends - 1, 0)], 0) if len(cell) else np.zeros(rows, dtype=np.int64)
    is_kept = cell > newest[row] - KEPT_CELLS
    # `+ 0.0` turns -0.0 into 0.0, so that equal states have equal bits.
    row, cell, edges = row[is_kept], cell[is_kept], cells.edges[is_kept] * _SIGNS + 0.0
    oldest = cell[np.minimum(np.searchsorted(row, np.arange(rows)), max(len(row) - 1, 0))] if len(row) else newest
    ends = np.cumsum(np.where(knows, newest - oldest + 1, 0))
    table = np.full((len(EDGES), int(ends[-1]) if rows else 0), np.nan)
    table[:, ends[row] - 1 - (newest[row] - cell)] = edges.T
    offsets = np.append(0, ends)
    lists = (pl.Series(name, pa.LargeListArray.from_arrays(offsets, of)) for name, of in zip(EDGES, table, strict=True))
    return [pl.Series("cell", newest).set(pl.Series(~knows), None), *lists]


def usual_bands(cells: Cells, wanted: Integers) -> Bands:
    """Compute the bands of the wanted cells (by number) from the cells of the previous days."""
    edges = _with_envelopes(cells)
    days = CELLS_A_DAY * np.arange(1, DAYS + 1)
    ends = np.empty((len(wanted), edges.shape[1]))
    # In parts, to bound memory.
    for start in range(0, len(wanted), _CELLS_AT_ONCE):
        part = slice(start, start + _CELLS_AT_ONCE)
        of_days = np.full((len(wanted[part]), DAYS, edges.shape[1]), np.inf)
        for offset in range(-REACH, REACH + 1):
            np.minimum(of_days, edges[_places(cells, wanted[part, None] - days + offset)], out=of_days)
        ends[part] = _lower_quartile(of_days)
    low, high, lowest, lowest_high, highest, highest_low = ends.T
    return Bands((low, -high), (lowest, -lowest_high), (highest_low, -highest))


def envelope_before(cells: Cells, wanted: Integers, until: Integers) -> Floats:
    """Return the signed lowest and highest value of each envelope's cells before `until`; infinite if there are none.

    Envelopes are given by the number of their last cell.
    """
    edges = _with_nothing(cells.edges)
    before = np.full((len(wanted), 2), np.inf)
    for offset in range(ENVELOPE):
        number = wanted - offset
        np.minimum(before, edges[np.where(number < until, _places(cells, number), -1)], out=before)
    return before


def range_so_far(cells: Cells, wanted: Integers) -> Floats:
    """Return the signed lowest and highest value of each wanted cell; infinite if it has none."""
    return _with_nothing(cells.edges)[_places(cells, wanted)]


def _with_envelopes(cells: Cells) -> Floats:
    """Append both ends of each envelope edge to the cells' edges, all signed; the last row is empty (infinite)."""
    number, envelope = cells.number, cells.edges.copy()
    for step in range(1, ENVELOPE):
        # Cells are sorted, so an envelope's cells are at most ENVELOPE - 1 rows before; gaps make them fewer.
        is_inside = number[step:] - number[:-step] < ENVELOPE
        other = np.where(is_inside[:, None], cells.edges[:-step], np.inf)
        np.minimum(envelope[step:], other, out=envelope[step:])
    lowest, highest = envelope.T
    return _with_nothing(np.column_stack([cells.edges, lowest, -lowest, highest, -highest]))


def _with_nothing(edges: Floats) -> Floats:
    return np.concatenate([edges, np.full((1, edges.shape[1]), np.inf)])


def _places(cells: Cells, numbers: Integers) -> Integers:
    """Return the row of each cell by number; a missing cell has the row after the last, which is the empty one."""
    if not len(cells.number):
        return np.zeros(numbers.shape, dtype=np.int64)
    place = np.minimum(np.searchsorted(cells.number, numbers), len(cells.number) - 1)
    return np.where(cells.number[place] == numbers, place, len(cells.number))


def _lower_quartile(of_days: Floats) -> Floats:
    """Return the lower quartile over the days (second axis), with linear interpolation; infinite values are missing days."""
    ordered = np.sort(of_days.transpose(0, 2, 1), axis=2)
    last = np.isfinite(ordered[:, 0]).sum(axis=1) - 1
    position = QUARTILE * np.maximum(last, 0)
    below = np.floor(position).astype(np.int64)
    row = np.arange(len(ordered))
    lower, upper = ordered[row, :, below], ordered[row, :, np.minimum(below + 1, np.maximum(last, 0))]
    with np.errstate(invalid="ignore"):
        return np.where((last >= 0)[:, None], lower + (upper - lower) * (position - below)[:, None], np.nan)


def _number(row: Integers, cell: Integers) -> Integers:
    return row * _KEY_STEP + (cell + _ZERO_CELL)
