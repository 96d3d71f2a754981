"""Find a pattern in ordered events, on columns, for all keys at once."""

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyfold.operators.patterns.vocabulary import FIRST, FollowedBy, Pattern, Times, Without
from keyfold.times import micros

Rows = NDArray[np.intp]

NO_ROW = -1

_PAIRS = 1_000_000
"""Most pairs of events that are compared by a `where` at a time."""


class Sequence(NamedTuple):
    """Events of any number of keys, in order.

    Attributes:
        events: the rows, grouped by key, and in order within each key.
        key_number: for each row the number of its key, in ascending order.
        time: for each row its time, microseconds since 1970.
        is_new: for each row whether it is new; other rows were left open by an earlier call.
    """

    events: pl.DataFrame
    key_number: Rows
    time: NDArray[np.int64]
    is_new: NDArray[np.bool_]


class Found(NamedTuple):
    """The matches of a pattern.

    Attributes:
        first: first rows of matches.
        last: last rows of the same matches; `NO_ROW` if there is none (`Without`).
        open: rows that may still be the first of a match.
    """

    first: Rows
    last: Rows
    open: Rows


def find(pattern: Pattern, sequence: Sequence, watermark: int) -> Found:
    """Find the matches of a pattern.

    Args:
        pattern: the pattern.
        sequence: rows that were left open (`Found.open`), and all rows that the watermark has passed since.
        watermark: the watermark, in microseconds since 1970.
    """
    begins = np.flatnonzero(_holds(pattern.a, sequence.events))
    may_wait = sequence.time[begins] + micros(pattern.within) > watermark
    if isinstance(pattern, Times):
        last, still_open = _nth(pattern, sequence, begins)
    else:
        last, still_open = _first_that_fits(pattern, sequence, begins)
    if isinstance(pattern, Without):
        alone = begins[still_open & ~may_wait]
        return Found(alone, np.full(len(alone), NO_ROW), begins[still_open & may_wait])
    is_match = last != NO_ROW
    return Found(begins[is_match], last[is_match], begins[still_open & may_wait])


def _nth(pattern: Times, sequence: Sequence, begins: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """Return for every `a` the row of the n-th `a` from there on, and whether that one has not come yet."""
    # Rows of a key are adjacent, so its n-th `a` is n - 1 places further, if it is still of the same key.
    at = np.arange(len(begins)) + pattern.n - 1
    nth = begins[np.minimum(at, max(len(begins) - 1, 0))]
    is_there = (at < len(begins)) & (sequence.key_number[nth] == sequence.key_number[begins])
    in_time = is_there & (sequence.time[nth] - sequence.time[begins] <= micros(pattern.within))
    return np.where(in_time, nth, NO_ROW), ~is_there


def _first_that_fits(pattern: FollowedBy | Without, sequence: Sequence, begins: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """Return for every `a` the row of the first later `b` that fits it, and whether one may still come.

    Each `a` is compared with the next `b`; those without a match are compared with the next two, four, and so on.
    """
    # Open rows have been compared with every earlier `b`.
    answers = np.flatnonzero(_holds(pattern.b, sequence.events) & sequence.is_new)
    last = np.full(len(begins), NO_ROW)
    # Open unless a match is found; the caller closes those whose time has passed.
    still_open = np.ones(len(begins), dtype=bool)
    next_only = isinstance(pattern, FollowedBy) and pattern.next_only
    at = np.searchsorted(answers, begins, side="right")
    left, width = np.arange(len(begins)), 1
    while left.size:
        candidates = at[left][:, None] + np.arange(width)
        reach = _in_reach(pattern, sequence, begins[left], answers, candidates)
        pair, which = np.nonzero(reach)
        answer = answers[candidates[pair, which]]
        hits = np.flatnonzero(_fits(pattern.where, sequence, begins[left][pair], answer))
        found, first = np.unique(pair[hits], return_index=True)
        last[left[found]] = answer[hits[first]]
        still_open[left[found]] = False
        if next_only:
            # The next `b` has come, and did not fit or was too late.
            still_open[_has_next(sequence, begins, answers, at)] = False
            break
        # If the last candidate was out of reach, so are all later ones.
        goes_on = reach[:, -1].copy()
        goes_on[found] = False
        left = left[goes_on]
        at[left] += width
        width = max(1, min(2 * width, _PAIRS // max(1, len(left))))
    return last, still_open


def _in_reach(
    pattern: FollowedBy | Without, sequence: Sequence, begins: Rows, answers: Rows, candidates: Rows
) -> NDArray[np.bool_]:
    """Return for each beginning (row) and candidate answer (column) whether the answer has the same key and is in time."""
    if not len(answers):
        return np.zeros(candidates.shape, dtype=bool)
    rows = answers[np.minimum(candidates, len(answers) - 1)]
    is_there = candidates < len(answers)
    same_key = sequence.key_number[rows] == sequence.key_number[begins][:, None]
    in_time = sequence.time[rows] - sequence.time[begins][:, None] <= micros(pattern.within)
    return is_there & same_key & in_time


def _has_next(sequence: Sequence, begins: Rows, answers: Rows, at: Rows) -> NDArray[np.bool_]:
    """Return for each beginning whether its key has a later answer."""
    if not len(answers):
        return np.zeros(len(begins), dtype=bool)
    rows = answers[np.minimum(at, len(answers) - 1)]
    return (at < len(answers)) & (sequence.key_number[rows] == sequence.key_number[begins])


def _fits(where: pl.Expr | None, sequence: Sequence, first: Rows, last: Rows) -> NDArray[np.bool_]:
    """Return for each pair of events whether the condition on the two holds."""
    if where is None:
        return np.ones(len(first), dtype=bool)
    columns = []
    for name in dict.fromkeys(where.meta.root_names()):
        of_first = name.removeprefix(FIRST) if name not in sequence.events.columns else None
        rows = last if of_first is None else first
        columns.append(sequence.events[of_first or name].gather(rows).alias(name))
    return _holds(where, pl.DataFrame(columns) if columns else pl.DataFrame({"": first}))


def _holds(condition: pl.Expr, rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Return for each row whether a condition holds; NULL counts as false."""
    return rows.with_columns(condition.fill_null(value=False).alias("#holds"))["#holds"].to_numpy()
