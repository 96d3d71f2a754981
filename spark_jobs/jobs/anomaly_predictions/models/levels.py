"""Score how rare a value's level is, among all values and among those at the same hour of the day.

Levels divide the range of values so far into equal steps, like a histogram. Changes smaller than a step are ignored, as in a
plot of the metric. At most `LEVELS` steps cover the range. When a value needs more, the step doubles and neighbouring levels
merge. So counts stay integers and do not depend on batch boundaries.

The surprise of a value is one over the product of two probabilities: that of its level among all values, and that of its
level at this hour. Its logarithm is the value's code length, which gives the same ranking. A value is no surprise if it is at
least as likely as under a uniform distribution of levels.
"""

import math
from bisect import bisect_left
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from spark_jobs.jobs.anomaly_predictions.models.runs import Floats, Integers, KeyRuns, at_number

LEVELS = 32
PRIOR = 1.0
"""Weight of the prior in events: uniform over the levels for all values; for an hour, the distribution of all values."""
FIRST = 20
"""Number of events to learn before a value can be a surprise."""
HALVED_EVERY = 16_000
"""All counts are halved after this number of events, from the second time on, since a metric may change for good."""

_HOURS = 24
_HOUR = 3_600_000_000
_SLOTS = LEVELS + 2
"""Number of levels of a grid, with an empty one on either side."""
_FIRST_STEP = 0.0637
"""The first step as a share of the first change. It is not round, so that integers are not on the edges of levels."""
_ROUNDING = 1e-9
"""Changes smaller than this share of a value are rounding errors."""
_SMALLEST_STEP = 1e-140

_GRID = ("level_origin", "level_step", "level_least", "level_most")
COLUMNS = {**dict.fromkeys(_GRID, pl.Float64()), "level_count": pl.List(pl.Int16)}
"""Columns of the model: its `Grid`, and the count of each level, by hour and then from the lowest level."""


class Grid(NamedTuple):
    """The levels of many metrics, one row per metric.

    Attributes:
        origin: the first value, which is an edge of a level.
        step: width of a level; 0 while all values are equal.
        least, most: range of the values so far.
    """

    origin: Floats
    step: Floats
    least: Floats
    most: Floats

    def level(self, values: Floats, row: Integers) -> Floats:
        """Return the level of each value in the grid of its row, counted from the origin."""
        away, step = values - self.origin[row], self.step[row]
        with np.errstate(divide="ignore", invalid="ignore"):
            level = np.floor(away / step)
        return np.where(np.isnan(level), 0.0, level)


class Learned(NamedTuple):
    """Events learned one after the other, split into pieces: parts of a run in which origin and step do not change.

    Attributes:
        grid: the grid at the end of each piece.
        lowest: the level of the least value of each piece.
        before: the counts before each piece, by hour and slot.
        after: the counts after each run, by hour and slot.
        first_piece: the first piece of each run, which begins before its first event.
        first_row: the row of the first event of each piece.
        piece: the piece in which each event is counted.
        hour: the hour of the day of each event.
        in_slot, in_hour, in_cell: sorted numbers of the events by (piece, slot), (piece, hour), and both. A binary search in
            them counts the events up to a row.
    """

    grid: Grid
    lowest: Floats
    before: Integers
    after: Integers
    first_piece: Integers
    first_row: Integers
    piece: Integers
    hour: Integers
    in_slot: Integers
    in_hour: Integers
    in_cell: Integers


def initial(models: int) -> list[pl.Series]:
    """Build the columns of this number of untrained models."""
    return [*(pl.Series(name, np.zeros(models)) for name in _GRID), _lists(np.zeros((models, _HOURS * LEVELS)))]


def learn(models: pl.DataFrame, known: Integers, runs: KeyRuns, times: Integers, values: Floats) -> Learned:
    """Learn events in the order of each key; the model of each run has learned `known` events before."""
    kept = Grid(*(models[name].to_numpy()[runs.model] for name in _GRID))
    pieces = _pieces(kept, known, runs, values)
    first_row = np.array([piece.row for piece in pieces])
    grid = Grid(*(np.array(column) for column in zip(*(piece[2:] for piece in pieces), strict=True)))
    numbers = np.arange(len(pieces))
    lowest = grid.level(grid.least, numbers)
    piece = np.repeat(numbers, np.diff(np.append(first_row, len(values))))
    hour = times // _HOUR % _HOURS
    slot = _slots(grid.level(values, piece) - lowest[piece])
    cell = (piece * _HOURS + hour) * _SLOTS + slot
    counts = np.bincount(cell, minlength=len(pieces) * _HOURS * _SLOTS).reshape(-1, _HOURS, _SLOTS)
    first_piece = np.flatnonzero([piece.change == "first" for piece in pieces])
    before = np.zeros_like(counts)
    before[first_piece, :, 1:-1] = _counts(models)[runs.model]
    moved = grid.level(kept.least, first_piece) - lowest[first_piece]
    for run in np.flatnonzero(moved).tolist():
        before[first_piece[run]] = np.roll(before[first_piece[run]], int(moved[run]), axis=1)
    for number in np.flatnonzero([piece.change != "first" for piece in pieces]).tolist():
        before[number] = _changed(before[number - 1] + counts[number - 1], pieces[number].change, grid, lowest, number)
    last = np.append(first_piece[1:], len(pieces)) - 1
    rows = np.arange(len(values))
    places = (piece * _SLOTS + slot, piece * _HOURS + hour, cell)
    inside = [np.sort(place * len(values) + rows) for place in places]
    return Learned(grid, lowest, before, before[last] + counts[last], first_piece, first_row, piece, hour, *inside)


def piece_after(learned: Learned, runs: KeyRuns, number: Integers) -> Integers:
    """Return, for each event, the piece that a model is in after the first `number` events of the run."""
    return at_number(learned.piece, learned.first_piece, runs, number)


def surprises(learned: Learned, runs: KeyRuns, known: Integers, values: Floats, number: Integers) -> Floats:
    """Compute the surprise of each event by a model that has learned the first `number` of its run's events; 0 for none."""
    until, piece = runs.starts[runs.run] + number, piece_after(learned, runs, number)
    hour, rows = learned.hour, len(values)

    def counted(place: Integers, inside: Integers) -> Integers:
        return np.searchsorted(inside, place * rows + until) - np.searchsorted(inside, place * rows)

    of_all = learned.before.sum(axis=1)
    here = np.zeros(rows, np.int64)
    everywhere = np.zeros(rows, np.int64)
    level = learned.grid.level(values, piece) - learned.lowest[piece]
    # Neighbouring levels count half, so that a value near the edge of a frequent level is not rare.
    for above, weight in ((-1, 1), (0, 2), (1, 1)):
        slot = _slots(level + above)
        everywhere += weight * (of_all[piece, slot] + counted(piece * _SLOTS + slot, learned.in_slot))
        cell = (piece * _HOURS + hour) * _SLOTS + slot
        here += weight * (learned.before[piece, hour, slot] + counted(cell, learned.in_cell))
    in_all = of_all.sum(axis=1)[piece] + until - learned.first_row[piece]
    in_hour = learned.before.sum(axis=2)[piece, hour] + counted(piece * _HOURS + hour, learned.in_hour)
    on_any_day = (everywhere / 4 + PRIOR / LEVELS) / (in_all + PRIOR)
    at_this_hour = (here / 4 + PRIOR * on_any_day) / (in_hour + PRIOR)
    surprise = 1.0 / (on_any_day * at_this_hour)
    is_known = known[runs.run] + number >= FIRST
    return np.where(is_known & (surprise > LEVELS * LEVELS), surprise, 0.0)


def columns(models: pl.DataFrame, runs: KeyRuns, learned: Learned) -> list[pl.Series]:
    """Build the models' columns after the events."""
    last = np.append(learned.first_piece[1:], len(learned.lowest)) - 1
    counts = _counts(models).reshape(models.height, -1)
    counts[runs.model] = learned.after[:, :, 1:-1].reshape(len(last), -1)
    grid = zip(_GRID, learned.grid, strict=True)
    return [*(models[name].scatter(runs.model, column[last]) for name, column in grid), _lists(counts)]


_Change = Literal["first", "wider", "halved"]


class _Piece(NamedTuple):
    """The first row of a piece, its change from the previous piece of the run, and its grid at the end."""

    row: int
    change: _Change
    origin: float
    step: float
    least: float
    most: float


def _pieces(kept: Grid, known: Integers, runs: KeyRuns, values: Floats) -> list[_Piece]:
    pieces: list[_Piece] = []
    parts = zip(
        runs.starts.tolist(), runs.counts.tolist(), known.tolist(), *(column.tolist() for column in kept), strict=True
    )
    for start, count, number, origin, step, least, most in parts:
        pieces += _pieces_of_run(values[start : start + count], start, number, origin, step, least, most)
    return pieces


def _pieces_of_run(
    values: Floats, start: int, known: int, origin: float, step: float, least: float, most: float
) -> list[_Piece]:
    lows, highs = np.minimum.accumulate(values), np.maximum.accumulate(values)
    if known:
        lows, highs = np.minimum(lows, least), np.maximum(highs, most)
    # The first piece may be empty: it is the state before the run's first event.
    begun: list[tuple[int, _Change, float, float]] = [(0, "first", origin, step)]
    if not known:
        origin = values[0].item()
        begun.append((0, "wider", origin, step))
    row = 0
    halved_at = max(2, -(-known // HALVED_EVERY)) * HALVED_EVERY - known

    def is_outgrown(row: int) -> bool:
        low, high = lows[row].item() - origin, highs[row].item() - origin
        if step == 0.0:
            return low != high
        return math.floor(high / step) - math.floor(low / step) >= LEVELS

    while True:
        # Ranges only grow, so a binary search finds the first value that does not fit.
        outgrown_at = row + bisect_left(range(row, len(values)), True, key=is_outgrown)
        row = min(halved_at, outgrown_at)
        if row >= len(values):
            break
        if row == halved_at:
            halved_at += HALVED_EVERY
            begun.append((row, "halved", origin, step))
            continue
        if step == 0.0:
            value = values[row].item()
            size = max(abs(value), abs(origin))
            step = max(_FIRST_STEP * abs(value - origin), _ROUNDING * size, _SMALLEST_STEP)
        # Doubling merges pairs of levels, so existing counts can be added up.
        while is_outgrown(row):
            step *= 2.0
        begun.append((row, "wider", origin, step))
    ends = [*(row for row, *_ in begun[1:]), len(values)]
    ranges = ((lows[end - 1].item(), highs[end - 1].item()) if end else (least, most) for end in ends)
    pieces = zip(begun, ranges, strict=True)
    return [_Piece(start + row, change, origin, step, *limits) for (row, change, origin, step), limits in pieces]


def _changed(counts: Integers, change: str, grid: Grid, lowest: Floats, number: int) -> Integers:
    """Convert the counts of the previous piece to the levels of this one."""
    if change == "halved":
        # Shift the levels, since a lower least value in this piece moves all of them up.
        return np.roll(counts // 2, int(lowest[number - 1] - lowest[number]), axis=1)
    levels = lowest[number - 1] + np.arange(-1, LEVELS + 1)
    wider = grid.step[number - 1] / grid.step[number] if grid.step[number] else 0.0
    into = _slots(np.floor(levels * wider) - lowest[number])
    moved = np.zeros_like(counts.T)
    np.add.at(moved, into, counts.T)
    return moved.T


def _slots(levels: Floats) -> Integers:
    """Return the slots of levels that are counted from the lowest; all levels outside of the grid go to the empty slots."""
    return np.clip(levels + 1, 0, LEVELS + 1).astype(np.int64)


def _counts(models: pl.DataFrame) -> Integers:
    flat = models["level_count"].explode(empty_as_null=False).to_numpy()
    return flat.astype(np.int64).reshape(models.height, _HOURS, LEVELS)


def _lists(counts: np.ndarray) -> pl.Series:
    table = pl.Series("level_count", counts.astype(np.int16), dtype=pl.Array(pl.Int16, _HOURS * LEVELS))
    return table.cast(COLUMNS["level_count"])
