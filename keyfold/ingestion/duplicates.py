"""Which rows are second copies of an event, told by fingerprints of ids: arrays in, a mask out.

A copy is a row with the id of an earlier one and an event time no more than the window away from a copy that stands.
Earlier are the events that were ingested before; within a batch, the row of the smaller file and line.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

_PAIRS = 4_000_000
_MANY = 64
_ROUNDS = 32

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Ids:
    """Events by the fingerprints of their ids.

    Attributes:
        first, second: two independent 64-bit hashes of the id.
        time: event time, microseconds since 1970.
    """

    first: Hashes
    second: Hashes
    time: Numbers

    def __len__(self) -> int:
        return len(self.first)

    def take(self, where: Numbers | Mask | slice) -> "Ids":
        """Those at some positions."""
        return Ids(self.first[where], self.second[where], self.time[where])

    def sorted_order(self) -> Numbers:
        """The positions in order of first, second, time."""
        order = np.argsort(self.first, kind="stable")
        # Few ids share their first hash: sorting all rows by all three would cost more for nothing.
        tied = _tied(self.first[order])
        if tied.any():
            among = order[tied]
            order[tied] = among[np.lexsort((self.time[among], self.second[among], self.first[among]))]
        return order


def hash_ranges(count: int) -> Hashes:
    """Where ranges of first hashes begin that divide all of them evenly; copies have the same hash."""
    return np.array([at * (2**64 // count) for at in range(count)], np.uint64)


def copies_of(ids: Ids, standing: Ids, window: int) -> Mask:
    """Which rows are copies of events that stand.

    Args:
        ids: the rows, in any order.
        standing: the events, in `sorted_order`; they may be a file in the place of memory.
        window: microseconds.
    """
    found = np.zeros(len(ids), np.bool_)
    if not len(standing):
        return found
    # By the first hash alone, which finds nearly all there is in one look; the second decides among what is left.
    left = np.searchsorted(standing.first, ids.first, "left")
    known = np.flatnonzero(standing.first[np.minimum(left, len(standing) - 1)] == ids.first)
    right = np.searchsorted(standing.first, ids.first[known], "right")
    left, count = left[known], right - left[known]
    few = count <= _MANY
    for start in _pieces(count[few]):
        rows, begin, copies = known[few][start], left[few][start], count[few][start]
        pairs = np.repeat(np.arange(len(rows)), copies)
        at = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies) + begin[pairs]
        near = np.abs(standing.time[at] - ids.time[rows[pairs]]) <= window
        near &= standing.second[at] == ids.second[rows[pairs]]
        found[rows[pairs[near]]] = True
    many = known[~few]
    for begin in np.unique(left[~few]):
        # An id of very many copies: their times are in order, so that the nearest is found and not gone through.
        rows = many[left[~few] == begin]
        end = np.searchsorted(standing.first, standing.first[begin], "right")
        for second in np.unique(ids.second[rows]):
            same = rows[ids.second[rows] == second]
            inside = standing.second[begin:end]
            low, high = np.searchsorted(inside, second, "left"), np.searchsorted(inside, second, "right")
            found[same] = _is_near(ids.time[same], standing.time[begin + low : begin + high], window)
    return found


def same_time_copies(ids: Ids, order: Numbers) -> Mask:
    """Which rows have the id and the very time of an earlier one.

    Whatever makes a copy of the earlier one makes one of these too: they may go before anything else is known.

    Args:
        ids: the rows.
        order: of each row, which of two is the earlier one.
    """
    found = np.zeros(len(ids), np.bool_)
    among = _repeated(ids)
    if len(among):
        some = ids.take(among)
        sequence = np.lexsort((order[among], some.time, some.second, some.first))
        some = some.take(sequence)
        again = (
            (some.first[1:] == some.first[:-1])
            & (some.second[1:] == some.second[:-1])
            & (some.time[1:] == some.time[:-1])
        )
        found[among[sequence[1:][again]]] = True
    return found


def copies_within(ids: Ids, order: Numbers, window: int) -> Mask:
    """Which rows are copies of earlier rows among these that stand.

    Args:
        ids: the rows, none of which is a copy of an event from before.
        order: of each row, which of two is the earlier one.
        window: microseconds.
    """
    found = same_time_copies(ids, order)
    among = _repeated(ids)
    among = among[~found[among]]
    if not len(among):
        return found
    some = ids.take(among)
    sequence = np.lexsort((some.time, some.second, some.first))
    among, some = among[sequence], some.take(sequence)
    # Rows that no chain of near ones connects know nothing of each other.
    apart = (
        (some.first[1:] != some.first[:-1])
        | (some.second[1:] != some.second[:-1])
        | (some.time[1:] - some.time[:-1] > window)
    )
    # A chain: events of one id, each within the window of the next. What stands in one touches no other.
    chain = np.concatenate([[0], np.cumsum(apart)])
    sequence = np.lexsort((order[among], chain))
    rows, chain, time = among[sequence], chain[sequence], some.time[sequence]
    # In each round every chain's earliest row stands and rules out those near it: columns at once, however many ids.
    for _ in range(_ROUNDS):
        linked = _tied(chain)
        rows, chain, time = rows[linked], chain[linked], time[linked]
        if not len(rows):
            return found
        heads = np.flatnonzero(np.concatenate([[True], chain[1:] != chain[:-1]]))
        head = np.repeat(heads, np.diff(np.append(heads, len(chain))))
        near = np.abs(time - time[head]) <= window
        is_head = np.arange(len(chain)) == head
        found[rows[near & ~is_head]] = True
        rows, chain, time = rows[~near], chain[~near], time[~near]
    # What is left is of ids with very many events, each just beyond the window of another.
    found[rows] = _greedy(chain, time, window)
    return found


def _greedy(chain: Numbers, time: Numbers, window: int) -> Mask:
    found = np.zeros(len(chain), np.bool_)
    standing: list[int] = []
    before = -1
    for at, (link, time_of_row) in enumerate(zip(chain.tolist(), time.tolist(), strict=True)):
        if link != before:
            standing, before = [], link
        position = bisect_left(standing, time_of_row)
        # The two neighbours are enough: `standing` is in order.
        found[at] = any(abs(other - time_of_row) <= window for other in standing[max(position - 1, 0) : position + 1])
        if not found[at]:
            insort(standing, time_of_row)
    return found


def _is_near(times: Numbers, standing: Numbers, window: int) -> Mask:
    """Which times lie within the window of one that stands; those are in order."""
    if not len(standing):
        return np.zeros(len(times), np.bool_)
    position = np.searchsorted(standing, times - window, "left")
    return np.asarray(
        (position < len(standing)) & (standing[np.minimum(position, len(standing) - 1)] <= times + window)
    )


def _repeated(ids: Ids) -> Numbers:
    """The positions of rows whose first hash is not theirs alone."""
    order = np.argsort(ids.first, kind="stable")
    return order[_tied(ids.first[order])]


def _tied(values: npt.NDArray[np.generic]) -> Mask:
    """Which of some grouped values equal a neighbour."""
    same = values[1:] == values[:-1]
    edge = np.zeros(min(len(values), 1), np.bool_)
    return np.concatenate([same, edge]) | np.concatenate([edge, same])


def _pieces(counts: Numbers) -> list[slice]:
    """Consecutive slices, each of a bounded sum."""
    if not len(counts):
        return []
    ends = np.cumsum(counts)
    cuts = [0, *(np.flatnonzero(np.diff(ends // _PAIRS)) + 1).tolist(), len(counts)]
    return [slice(start, end) for start, end in pairwise(cuts)]
