"""Find copies of events by fingerprints of their ids, two independent 64-bit hashes. Arrays in, a mask out.

A row is a copy if an earlier row that is kept has the same id and an event time within the window. Events of earlier batches
are earlier; within a batch, rows are ordered by file and line.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl
import polars_hash as ph

from keyfold.stream import Stream
from keyfold.times import to_micros

_PAIRS = 4_000_000
"""Pairs of events that are compared at once."""
_MANY = 64
"""Events with the same first hash up to which all pairs are compared."""
_ROUNDS = 32
"""Rounds in which all ids are processed at once. Rows that are left are processed one by one."""

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Ids:
    """Events by the fingerprints of their ids.

    Attributes:
        first, second: two independent 64-bit hashes of the id.
        time: event time in microseconds since 1970.
    """

    first: Hashes
    second: Hashes
    time: Numbers

    def __len__(self) -> int:
        return len(self.first)

    def take(self, where: Numbers | Mask | slice) -> "Ids":
        """Return the events at some positions."""
        return Ids(self.first[where], self.second[where], self.time[where])

    def sorted_order(self) -> Numbers:
        """Return the positions sorted by first, second, time."""
        order = np.argsort(self.first, kind="stable")
        # Few ids share their first hash, so only those rows are sorted by all three. Assigning to the tied positions keeps
        # the order of the others.
        tied = _tied(self.first[order])
        if tied.any():
            among = order[tied]
            order[tied] = among[np.lexsort((self.time[among], self.second[among], self.first[among]))]
        return order


def hash_ranges(count: int) -> Hashes:
    """Return the starts of `count` equal ranges of first hashes. Copies have the same hash, so they are in the same range."""
    return np.array([at * (2**64 // count) for at in range(count)], np.uint64)


def copies_of(ids: Ids, standing: Ids, window: int) -> Mask:
    """Return the rows that are copies of events ingested before.

    Args:
        ids: the rows, in any order.
        standing: the earlier events, in `sorted_order`. May be memory-mapped.
        window: maximum difference of event times, in microseconds.
    """
    is_copy = np.zeros(len(ids), np.bool_)
    if not len(standing):
        return is_copy
    # Search by the first hash alone, which excludes nearly all rows. The second hash decides among the rest.
    left = np.searchsorted(standing.first, ids.first, "left")
    known = np.flatnonzero(standing.first[np.minimum(left, len(standing) - 1)] == ids.first)
    right = np.searchsorted(standing.first, ids.first[known], "right")
    left, count = left[known], right - left[known]
    # Pair each row with all standing events of the same first hash, a bounded number of pairs at a time.
    few = count <= _MANY
    for start in _pieces(count[few]):
        rows, begin, copies = known[few][start], left[few][start], count[few][start]
        pairs = np.repeat(np.arange(len(rows)), copies)
        # For each pair, the position of the standing event: the row's first match plus a running number.
        at = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies) + begin[pairs]
        near = np.abs(standing.time[at] - ids.time[rows[pairs]]) <= window
        near &= standing.second[at] == ids.second[rows[pairs]]
        is_copy[rows[pairs[near]]] = True
    many = known[~few]
    for begin in np.unique(left[~few]):
        # An id with very many events: as their times are sorted, binary search finds the nearest.
        rows = many[left[~few] == begin]
        end = np.searchsorted(standing.first, standing.first[begin], "right")
        for second in np.unique(ids.second[rows]):
            same = rows[ids.second[rows] == second]
            inside = standing.second[begin:end]
            low, high = np.searchsorted(inside, second, "left"), np.searchsorted(inside, second, "right")
            is_copy[same] = _is_near(ids.time[same], standing.time[begin + low : begin + high], window)
    return is_copy


def same_time_copies(ids: Ids, order: Numbers) -> Mask:
    """Return the rows with the same id and the same time as an earlier row.

    They can be dropped before anything else is known: if the earlier row is a copy, so are they, and if it is not, they are
    copies of it.

    Args:
        ids: the rows.
        order: the rows' positions in the input; the lower one is earlier.
    """
    is_copy = np.zeros(len(ids), np.bool_)
    among = _repeated(ids)
    if len(among):
        some = ids.take(among)
        # Sorted so that equal ids and times are adjacent, the earliest first: all but the first of each group are copies.
        sequence = np.lexsort((order[among], some.time, some.second, some.first))
        some = some.take(sequence)
        again = (
            (some.first[1:] == some.first[:-1])
            & (some.second[1:] == some.second[:-1])
            & (some.time[1:] == some.time[:-1])
        )
        is_copy[among[sequence[1:][again]]] = True
    return is_copy


def copies_within(ids: Ids, order: Numbers, window: int) -> Mask:
    """Return the rows that are copies of earlier rows of the same batch.

    Args:
        ids: the rows, without copies of events of earlier batches.
        order: the rows' positions in the input; the lower one is earlier.
        window: maximum difference of event times, in microseconds.
    """
    is_copy = same_time_copies(ids, order)
    among = _repeated(ids)
    among = among[~is_copy[among]]
    if not len(among):
        return is_copy
    some = ids.take(among)
    sequence = np.lexsort((some.time, some.second, some.first))
    among, some = among[sequence], some.take(sequence)
    # A gap in time larger than the window separates rows of one id, which then do not affect each other.
    apart = (
        (some.first[1:] != some.first[:-1])
        | (some.second[1:] != some.second[:-1])
        | (some.time[1:] - some.time[:-1] > window)
    )
    # A chain: events of one id, each within the window of the next. Chains are independent.
    chain = np.concatenate([[0], np.cumsum(apart)])
    # Within a chain, rows are decided in their input order and not by time.
    sequence = np.lexsort((order[among], chain))
    rows, chain, time = among[sequence], chain[sequence], some.time[sequence]
    # In each round, the earliest row of each chain is kept and those near it are copies. All ids are processed at once.
    for _ in range(_ROUNDS):
        # A chain with a single row left has no copies.
        linked = _tied(chain)
        rows, chain, time = rows[linked], chain[linked], time[linked]
        if not len(rows):
            return is_copy
        heads = np.flatnonzero(np.concatenate([[True], chain[1:] != chain[:-1]]))
        head = np.repeat(heads, np.diff(np.append(heads, len(chain))))
        near = np.abs(time - time[head]) <= window
        is_head = np.arange(len(chain)) == head
        is_copy[rows[near & ~is_head]] = True
        rows, chain, time = rows[~near], chain[~near], time[~near]
    # The rest are ids with very many events, each just outside the window of another: process them row by row.
    is_copy[rows] = _greedy(chain, time, window)
    return is_copy


def _greedy(chain: Numbers, time: Numbers, window: int) -> Mask:
    is_copy = np.zeros(len(chain), np.bool_)
    standing: list[int] = []
    before = -1
    for at, (link, time_of_row) in enumerate(zip(chain.tolist(), time.tolist(), strict=True)):
        if link != before:
            standing, before = [], link
        position = bisect_left(standing, time_of_row)
        # The two neighbours are enough, since `standing` is sorted.
        is_copy[at] = any(abs(other - time_of_row) <= window for other in standing[max(position - 1, 0) : position + 1])
        if not is_copy[at]:
            insort(standing, time_of_row)
    return is_copy


def _is_near(times: Numbers, standing: Numbers, window: int) -> Mask:
    """Whether each time is within the window of one of the `standing` times, which are sorted."""
    if not len(standing):
        return np.zeros(len(times), np.bool_)
    position = np.searchsorted(standing, times - window, "left")
    return np.asarray(
        (position < len(standing)) & (standing[np.minimum(position, len(standing) - 1)] <= times + window)
    )


def _repeated(ids: Ids) -> Numbers:
    """Return the positions of rows that share their first hash with another row."""
    order = np.argsort(ids.first, kind="stable")
    return order[_tied(ids.first[order])]


def _tied(values: npt.NDArray[np.generic]) -> Mask:
    """Whether each value equals a neighbour. Equal values are adjacent."""
    same = values[1:] == values[:-1]
    edge = np.zeros(min(len(values), 1), np.bool_)
    return np.concatenate([same, edge]) | np.concatenate([edge, same])


def _pieces(counts: Numbers) -> list[slice]:
    """Cut `counts` into consecutive slices with bounded sums."""
    if not len(counts):
        return []
    ends = np.cumsum(counts)
    cuts = [0, *(np.flatnonzero(np.diff(ends // _PAIRS)) + 1).tolist(), len(counts)]
    return [slice(start, end) for start, end in pairwise(cuts)]


ENCODING = "xxhash64+wyhash 1"
"""Names the method of fingerprints. It must not change for a stream's ingest."""


def event_ids(stream: Stream, events: pl.DataFrame) -> Ids:
    """Compute the fingerprints of events.

    Args:
        stream: the stream, whose `event_id` names the columns that identify an event.
        events: events with at least those columns and the event time, which is never NULL.
    """
    hashed = events.select(_encoded(stream, events).alias("id")).select(
        ph.col("id").nchash.xxhash64().alias("first"),  # pyright: ignore[reportAttributeAccessIssue]
        ph.col("id").nchash.wyhash().alias("second"),  # pyright: ignore[reportAttributeAccessIssue]
    )
    return Ids(
        hashed["first"].to_numpy(), hashed["second"].to_numpy(), to_micros(events[stream.event_time]).astype(np.int64)
    )


def _encoded(stream: Stream, events: pl.DataFrame) -> pl.Expr:
    """Encode ids as texts, injectively: different ids have different texts, whatever their values.

    Numbers and times cannot contain the separator. Texts can, so each is preceded by its length, except for the last one,
    which ends with the id.
    """
    numbers, texts = [], []
    for name in stream.event_id:
        column, dtype = pl.col(name), events.schema[name]
        # JSON distinguishes ["a", "b"] from ["a, b"].
        if dtype.is_nested():
            column, dtype = pl.struct(name).struct.json_encode(), pl.String()
        if dtype == pl.String:
            texts.append(column)
        else:
            numbers.append(_as_integer(column, dtype).cast(pl.String).fill_null("N"))
    parts = list(numbers)
    for text in texts[:-1]:
        parts += [text.str.len_bytes().cast(pl.String).fill_null("N"), text.fill_null("")]
    if texts:
        parts.append(pl.when(texts[-1].is_null()).then(pl.lit("N")).otherwise(pl.lit("T") + texts[-1]))
    return pl.concat_str(parts, separator="\x1f")


def _as_integer(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_float():
        number = column.cast(pl.Float64)
        # Equal ids have equal fingerprints, and -0.0 equals 0.0. Adding 0.0 does not change the sign in Polars.
        number = pl.when(number == 0).then(0.0).otherwise(number)
        # The bits, since the text of a float may change with a version.
        return number.map_batches(_bits, return_dtype=pl.Int64)
    if dtype.is_temporal():
        return column.to_physical()
    return column.cast(pl.Int8) if dtype == pl.Boolean else column


def _bits(values: pl.Series) -> pl.Series:
    bits = pl.Series(values.name, values.fill_null(0.0).to_numpy().view(np.int64))
    return bits.set(values.is_null(), None)
