"""Find a pattern in ordered events, on columns, for all keys at once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.operators.ordering import Ordered
from keyfold.operators.patterns.vocabulary import Next, Pattern, Then, Without
from keyfold.times import micros, to_micros

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

_PAIRS = 1_000_000
"""Most pairs of events that are compared by a `where` at a time."""


class Passed(NamedTuple):
    """Events that the watermark has passed since the last batch.

    Attributes:
        ordered: the events.
        key: columns of the key.
        time: for each row its time, microseconds since 1970.
    """

    ordered: Ordered
    key: Sequence[str]
    time: NDArray[np.int64]


class Found(NamedTuple):
    """The matches of a pattern, and those that have begun and may still become one: the key, and the columns of their steps."""

    matches: pl.DataFrame
    begun: pl.DataFrame


class _Begun(NamedTuple):
    """Matches that lack the same steps.

    Attributes:
        columns: the key, and the columns of their steps so far.
        key_number: for each the number of its key, or -1 if no event of the key has been passed.
        last: for each the row of its last event; of an earlier batch, the row before all rows of its key.
        start: for each the time of its first event, microseconds since 1970.
    """

    columns: pl.DataFrame
    key_number: Rows
    last: Rows
    start: NDArray[np.int64]

    def only(self, rows: Rows | Flags) -> "_Begun":
        columns = self.columns.filter(rows) if rows.dtype == np.bool_ else self.columns[rows]
        return _Begun(columns, self.key_number[rows], self.last[rows], self.start[rows])


def find(
    pattern: Pattern, passed: Passed, begun: pl.DataFrame, watermark: int, columns: Callable[[str], list[pl.Expr]]
) -> Found:
    """Find the matches of a pattern.

    Args:
        pattern: the pattern.
        passed: the events.
        begun: what has begun in earlier batches (`Found.begun`); a step that has not come has NULL as its time.
        watermark: the watermark, in microseconds since 1970.
        columns: returns the columns that are kept of the event of a step; the first is `<step>_time`.
    """
    (first, beginning), *others = pattern.then.items()
    events = passed.ordered.events
    rows = np.flatnonzero(_holds(beginning.condition, events))
    new = _chosen(events, [*map(pl.col, passed.key), *columns(first)], rows)
    matches = _Begun(new, passed.ordered.key_number[rows], rows, passed.time[rows])
    still_open = []
    n_steps = pl.sum_horizontal(pl.col(f"{name}_time").is_not_null() for name in pattern.events)
    for place, (name, step) in enumerate(others, start=1):
        begun_before = begun.filter(n_steps == place).select(matches.columns.columns)
        matches = _with_earlier(matches, _placed(begun_before, passed, first))
        may_wait = matches.start + micros(pattern.within) > watermark
        answer, is_open = _first_that_fits(step, matches, passed, micros(pattern.within))
        still_open.append(matches.columns.filter(is_open & may_wait))
        if isinstance(step, Without):
            return Found(matches.columns.filter(is_open & ~may_wait), pl.concat(still_open, how="diagonal"))
        came = np.flatnonzero(answer >= 0)
        of_step = _chosen(events, columns(name), answer[came])
        matches = matches.only(came)
        matches = matches._replace(columns=matches.columns.hstack(of_step), last=answer[came])
    return Found(matches.columns, pl.concat(still_open, how="diagonal"))


def _chosen(events: pl.DataFrame, columns: list[pl.Expr], rows: Rows) -> pl.DataFrame:
    chosen = events.select(columns)
    # Often all of them begin a match, and need no copy.
    return chosen if len(rows) == chosen.height and (np.diff(rows) == 1).all() else chosen[rows]


def _placed(begun: pl.DataFrame, passed: Passed, first: str) -> _Begun:
    """Place what has begun earlier before the events of its key, all of which are later: others would have been late."""
    starts = passed.ordered.starts
    keys = passed.ordered.events[starts].select(passed.key).with_row_index("#key")
    number = begun.select(passed.key).join(keys, on=passed.key, how="left", maintain_order="left")["#key"]
    key_number = number.cast(pl.Int64).fill_null(-1).to_numpy()
    # Keys without events look behind the last row.
    last = np.append(starts - 1, passed.ordered.events.height)[key_number]
    return _Begun(begun, key_number, last, to_micros(begun[f"{first}_time"]))


def _with_earlier(new: _Begun, earlier: _Begun) -> _Begun:
    if earlier.columns.is_empty():
        return new
    columns = pl.concat([earlier.columns, new.columns])
    return _Begun(columns, *(np.concatenate(both) for both in zip(earlier[1:], new[1:], strict=True)))


def _first_that_fits(step: Then, begun: _Begun, passed: Passed, within: int) -> tuple[Rows, Flags]:
    """Return for each match the row of the first later event that fits, or -1, and whether one may still come in time.

    Each is compared with the next candidate; those without an event are compared with the next two, four, and so on.
    """
    events, key_number = passed.ordered.events, passed.ordered.key_number
    candidates = np.flatnonzero(_holds(step.condition, events))
    answer = np.full(len(begun.last), -1)
    is_open = np.ones(len(begun.last), dtype=bool)
    at = np.searchsorted(candidates, begun.last, side="right")
    left, width = np.arange(len(begun.last)), 1
    while left.size and candidates.size:
        places = at[left][:, None] + np.arange(width)
        rows = candidates[np.minimum(places, len(candidates) - 1)]
        is_there = (places < len(candidates)) & (key_number[rows] == begun.key_number[left][:, None])
        in_reach = is_there & (passed.time[rows] - begun.start[left][:, None] <= within)
        pair, which = np.nonzero(in_reach)
        hits = np.flatnonzero(_fits(step.where, begun.columns, left[pair], events, rows[pair, which]))
        matched, first = np.unique(pair[hits], return_index=True)
        answer[left[matched]] = rows[pair, which][hits[first]]
        is_open[left[matched]] = False
        if isinstance(step, Next):
            is_open[is_there[:, 0]] = False
            break
        # If the last candidate was out of reach, so are all later ones.
        goes_on = in_reach[:, -1].copy()
        goes_on[matched] = False
        left = left[goes_on]
        at[left] += width
        width = max(1, min(2 * width, _PAIRS // max(1, len(left))))
    return answer, is_open


def _fits(condition: pl.Expr | None, begun: pl.DataFrame, which: Rows, events: pl.DataFrame, rows: Rows) -> Flags:
    """Return for each pair of a match and an event whether the condition on the two holds."""
    if condition is None:
        return np.ones(len(rows), dtype=bool)
    columns = [
        events[name].gather(rows) if name in events.columns else begun[name].gather(which)
        for name in dict.fromkeys(condition.meta.root_names())
    ]
    return _holds(condition, pl.DataFrame(columns) if columns else pl.DataFrame({"": rows}))


def _holds(condition: pl.Expr, rows: pl.DataFrame) -> Flags:
    """Return for each row whether a condition holds; NULL counts as false."""
    return rows.with_columns(condition.fill_null(value=False).alias("#holds"))["#holds"].to_numpy()
