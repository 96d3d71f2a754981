"""What values were at this time of day on the days before: their range in every quarter of an hour of the last week.

A value is held against the same time of each of the last seven days, give or take one, two and three quarters of an
hour: what those three say is averaged. How far it lies outside of a day's range is its distance to that day; of the seven
distances the lower quartile counts. So a value is usual when two or three days of the week had its like: a Sunday needs
no model of the weekend, and one odd day in the past excuses nothing.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.jobs.anomaly_predictions.models.runs import KeyRuns

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

CELL = 15 * 60 * 1_000_000
"""Microseconds of a cell: a quarter of an hour."""
CELLS_A_DAY = 96
DAYS = 7
REACHES = (1, 2, 3)
"""How many cells to either side of its own a value is held against."""
NEAREST_CELL = CELLS_A_DAY - max(REACHES)
"""How many cells before its own the newest is that a value is held against."""
KEPT_CELLS = DAYS * CELLS_A_DAY + max(REACHES) + 1
QUARTILE = 0.25

_KEY_STEP = 2**32
_ZERO_CELL = 2**31
_EVENTS_AT_ONCE = 50_000


@dataclass(frozen=True)
class Cells:
    """The ranges of many keys' cells: a sorted number of key (row of its model) and cell, lowest and highest value."""

    number: Integers
    low: Floats
    high: Floats


def cells_of(models: pl.DataFrame) -> Cells:
    """The cells that models keep in `cell`, `cell_low` and `cell_high`."""
    counts = models["cell"].list.len().to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(models.height), counts)
    cell, low, high = (
        models[column].explode(empty_as_null=False).to_numpy() for column in ("cell", "cell_low", "cell_high")
    )
    return Cells(_number(rows, cell.astype(np.int64)), low.astype(np.float64), high.astype(np.float64))


def event_cells(runs: KeyRuns, times: Integers) -> Integers:
    """The number of each event's cell."""
    return _number(runs.model[runs.run], times // CELL)


def with_events(cells: Cells, numbers: Integers, values: Floats) -> Cells:
    """The cells once they have seen the events, too."""
    number = np.concatenate([cells.number, numbers])
    low, high = np.concatenate([cells.low, values]), np.concatenate([cells.high, values])
    order = np.argsort(number, kind="stable")
    number = number[order]
    starts = np.flatnonzero(np.append(True, number[1:] != number[:-1])[: len(number)])
    if not len(starts):
        return cells
    return Cells(number[starts], np.minimum.reduceat(low[order], starts), np.maximum.reduceat(high[order], starts))


def cell_columns(cells: Cells, rows: int) -> list[pl.Series]:
    """The columns `cell`, `cell_low` and `cell_high` of so many models: of each the cells of its last week."""
    row, cell = cells.number // _KEY_STEP, cells.number % _KEY_STEP - _ZERO_CELL
    ends = np.searchsorted(row, np.arange(rows), side="right")
    newest = cell[np.maximum(ends - 1, 0)] if len(cell) else np.zeros(rows, dtype=np.int64)
    is_kept = cell > newest[row] - KEPT_CELLS
    counts = np.bincount(row[is_kept], minlength=rows)
    return [
        _lists("cell", cell[is_kept].astype(np.int32), counts),
        _lists("cell_low", cells.low[is_kept], counts),
        _lists("cell_high", cells.high[is_kept], counts),
    ]


@dataclass(frozen=True)
class Company:
    """How values compare with the same time of day before.

    Attributes:
        distance: how far a value lies outside of what was usual; 0 where nothing is known.
        low, high: the range of a usual day around this time; NaN where nothing is known.
    """

    distance: Floats
    low: Floats
    high: Floats


def compare(cells: Cells, numbers: Integers, values: Floats) -> Company:
    """Hold each value (in the cell of its number) against the cells of the days before."""
    distance, low, high = np.empty((3, len(values)))
    for start in range(0, len(values), _EVENTS_AT_ONCE):
        part = slice(start, start + _EVENTS_AT_ONCE)
        distance[part], low[part], high[part] = _compare(cells, numbers[part], values[part])
    return Company(distance, low, high)


def _compare(cells: Cells, numbers: Integers, values: Floats) -> tuple[Floats, Floats, Floats]:
    wanted, place = np.unique(numbers, return_inverse=True)
    days = CELLS_A_DAY * np.arange(1, DAYS + 1)
    low, high = np.full((2, len(wanted), DAYS), np.nan)
    distance = np.zeros(len(values))
    reached = -1
    for reach in REACHES:
        for offset in range(-reach, reach + 1):
            if abs(offset) > reached:
                found_low, found_high = _look_up(cells, wanted[:, None] - days + offset)
                low, high = np.fmin(low, found_low), np.fmax(high, found_high)
        reached = reach
        outside = np.maximum(np.maximum(low[place] - values[:, None], values[:, None] - high[place]), 0.0)
        distance += _quantile(outside, QUARTILE)
    return distance / len(REACHES), _quantile(low, 0.5, np.nan)[place], _quantile(high, 0.5, np.nan)[place]


def _look_up(cells: Cells, numbers: Integers) -> tuple[Floats, Floats]:
    """Range of each cell by number, NaN for a cell that is not there."""
    if not len(cells.number):
        nothing = np.full(numbers.shape, np.nan)
        return nothing, nothing
    place = np.minimum(np.searchsorted(cells.number, numbers), len(cells.number) - 1)
    is_there = cells.number[place] == numbers
    return np.where(is_there, cells.low[place], np.nan), np.where(is_there, cells.high[place], np.nan)


def _quantile(rows: Floats, share: float, unknown: float = 0.0) -> Floats:
    """The quantile of each row's numbers, between the two nearest where it falls between; NaNs do not count."""
    ordered = np.sort(rows, axis=1)
    last = np.maximum((~np.isnan(ordered)).sum(axis=1) - 1, 0)
    position = share * last
    below = np.floor(position).astype(np.int64)
    row = np.arange(len(ordered))
    lower, upper = ordered[row, below], ordered[row, np.minimum(below + 1, last)]
    between = lower + (upper - lower) * (position - below)
    return np.where(np.isnan(between), unknown, between)


def _number(row: Integers, cell: Integers) -> Integers:
    return row * _KEY_STEP + (cell + _ZERO_CELL)


def _lists(name: str, flat: NDArray, counts: Integers) -> pl.Series:
    offsets = np.cumsum(np.append(0, counts))
    return pl.Series(name, pa.LargeListArray.from_arrays(offsets, flat))
