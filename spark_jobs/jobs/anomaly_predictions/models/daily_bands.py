"""What is usual at this time of day: bands that a few of the last seven days kept to.

Of every half hour of the last week are kept the lowest and the highest value, and the least and the greatest change from
one value to the next. For the half hour in question, the same half hour of each of the seven days before is looked up,
give or take one: that is the range of that day. The band goes from the lower quartile of the days' lows to the upper
quartile of their highs: two days of the week must have gone further before it is usual. So a weekend needs no model of
its own, a rush hour may come a little late, and one bad day does not make the next one usual.

Each half hour also has an envelope: the lowest and the highest value of the three hours that end with it. Envelopes have
bands, too: a low that never came up for three hours is unusual though each of its values was seen at this time of day.
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
"""How many cells to either side of its own a value is held against."""
ENVELOPE = 6
"""How many cells an envelope spans, its own the last."""
QUARTILE = 0.25
NEAREST_CELL = CELLS_A_DAY - REACH
"""How many cells before its own the newest is that a value is held against."""
KEPT_CELLS = DAYS * CELLS_A_DAY + REACH + ENVELOPE

EDGES = ("cell_low", "cell_least", "cell_high", "cell_most")
"""The columns of edges: lowest value, least change, highest value, greatest change, one number a cell up to the newest.

NaN where a cell has no value."""
_SIGNS = np.array([1.0, 1.0, -1.0, -1.0])
"""Upper edges are held negative: then every edge is a least one, and there is one way to join and to rank them."""

_KEY_STEP = 2**32
_ZERO_CELL = 2**31
_CELLS_AT_ONCE = 4_096


@dataclass(frozen=True)
class Cells:
    """The cells of many keys: a sorted number of key (row of its model) and cell, and the four signed edges of each."""

    number: Integers
    edges: Floats


class Bands(NamedTuple):
    """A row a cell in question: the lower and the upper end of what is usual; NaN where no day is known.

    `lowest` and `highest` are those of the envelope.
    """

    value: tuple[Floats, Floats]
    change: tuple[Floats, Floats]
    lowest: tuple[Floats, Floats]
    highest: tuple[Floats, Floats]


def cells_of(models: pl.DataFrame) -> Cells:
    """The cells that models keep in the columns of `EDGES`; `cell` is the newest."""
    counts = models[EDGES[0]].list.len().to_numpy().astype(np.int64)
    rows, ends = np.repeat(np.arange(models.height), counts), np.cumsum(counts)
    newest = models["cell"].fill_null(0).to_numpy()
    cell = newest[rows] - (ends[rows] - 1 - np.arange(len(rows)))
    edges = np.stack([models[name].explode(empty_as_null=False).to_numpy() for name in EDGES], axis=1)
    is_there = ~np.isnan(edges[:, 0])
    return Cells(_number(rows, cell)[is_there], edges[is_there] * _SIGNS)


def event_cells(runs: KeyRuns, times: Integers) -> Integers:
    """The number of each event's cell."""
    return _number(runs.model[runs.run], times // CELL)


def event_edges(values: Floats, changes: Floats) -> Floats:
    """The signed edges of the cell that had seen one event and nothing else, a row an event."""
    return np.stack([values, changes, values, changes], axis=1) * _SIGNS


def with_events(cells: Cells, numbers: Integers, edges: Floats) -> Cells:
    """The cells once they have seen the events, too."""
    if not len(numbers):
        return cells
    number = np.concatenate([cells.number, numbers])
    order = np.argsort(number, kind="stable")
    number = number[order]
    starts = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
    return Cells(number[starts], np.minimum.reduceat(np.concatenate([cells.edges, edges])[order], starts, axis=0))


def cell_columns(cells: Cells, rows: int) -> list[pl.Series]:
    """The columns `cell` and `EDGES` of so many models: of each the cells of its last week."""
    row, cell = cells.number // _KEY_STEP, cells.number % _KEY_STEP - _ZERO_CELL
    ends = np.searchsorted(row, np.arange(rows), side="right")
    knows = np.diff(ends, prepend=0) > 0
    newest = np.where(knows, cell[np.maximum(ends - 1, 0)], 0) if len(cell) else np.zeros(rows, dtype=np.int64)
    is_kept = cell > newest[row] - KEPT_CELLS
    row, cell, edges = row[is_kept], cell[is_kept], cells.edges[is_kept] * _SIGNS + 0.0
    oldest = cell[np.minimum(np.searchsorted(row, np.arange(rows)), max(len(row) - 1, 0))] if len(row) else newest
    ends = np.cumsum(np.where(knows, newest - oldest + 1, 0))
    table = np.full((len(EDGES), int(ends[-1]) if rows else 0), np.nan)
    table[:, ends[row] - 1 - (newest[row] - cell)] = edges.T
    offsets = np.append(0, ends)
    lists = (pl.Series(name, pa.LargeListArray.from_arrays(offsets, of)) for name, of in zip(EDGES, table, strict=True))
    return [pl.Series("cell", newest).set(pl.Series(~knows), None), *lists]


def usual_bands(cells: Cells, wanted: Integers) -> Bands:
    """What is usual in each cell wanted (by number), given the cells of the days before."""
    edges = _with_envelopes(cells)
    days = CELLS_A_DAY * np.arange(1, DAYS + 1)
    ends = np.empty((len(wanted), edges.shape[1]))
    for start in range(0, len(wanted), _CELLS_AT_ONCE):
        part = slice(start, start + _CELLS_AT_ONCE)
        of_days = np.full((len(wanted[part]), DAYS, edges.shape[1]), np.inf)
        for offset in range(-REACH, REACH + 1):
            np.minimum(of_days, edges[_places(cells, wanted[part, None] - days + offset)], out=of_days)
        ends[part] = _lower_quartile(of_days)
    low, least, high, most, lowest, lowest_high, highest, highest_low = ends.T
    return Bands((low, -high), (least, -most), (lowest, -lowest_high), (highest_low, -highest))


def envelope_before(cells: Cells, wanted: Integers, until: Integers) -> Floats:
    """Of each envelope (by the number of its last cell) the signed lowest and highest value of its cells before `until`.

    Infinite if there are none.
    """
    edges = _with_nothing(cells.edges[:, [0, 2]])
    before = np.full((len(wanted), 2), np.inf)
    for offset in range(ENVELOPE):
        number = wanted - offset
        np.minimum(before, edges[np.where(number < until, _places(cells, number), -1)], out=before)
    return before


def range_so_far(cells: Cells, wanted: Integers) -> Floats:
    """The signed lowest and highest value of each cell wanted itself; infinite if it has none."""
    return _with_nothing(cells.edges[:, [0, 2]])[_places(cells, wanted)]


def _with_envelopes(cells: Cells) -> Floats:
    """The edges of each cell and both ends of its envelope's, all signed; nothing in the last row."""
    number, envelope = cells.number, cells.edges[:, [0, 2]].copy()
    for step in range(1, ENVELOPE):
        # Cells lie in order: of those that belong to an envelope, the one `step` rows before is at most that far away.
        is_inside = number[step:] - number[:-step] < ENVELOPE
        other = np.where(is_inside[:, None], cells.edges[:-step, [0, 2]], np.inf)
        np.minimum(envelope[step:], other, out=envelope[step:])
    lowest, highest = envelope.T
    return _with_nothing(np.column_stack([cells.edges, lowest, -lowest, highest, -highest]))


def _with_nothing(edges: Floats) -> Floats:
    return np.concatenate([edges, np.full((1, edges.shape[1]), np.inf)])


def _places(cells: Cells, numbers: Integers) -> Integers:
    """Row of each cell by number; the row behind the last for a cell that is not there."""
    if not len(cells.number):
        return np.zeros(numbers.shape, dtype=np.int64)
    place = np.minimum(np.searchsorted(cells.number, numbers), len(cells.number) - 1)
    return np.where(cells.number[place] == numbers, place, len(cells.number))


def _lower_quartile(of_days: Floats) -> Floats:
    """Over the days (second axis), between the two nearest where it falls between; infinite days are not there."""
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
