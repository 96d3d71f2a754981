"""Find events by fingerprints of their ids, two independent 64-bit hashes, and compare digests of their contents.

A row has the id of an earlier one that is kept if their ids are the same, and their event times within the window. Events of
earlier batches are earlier; within a batch, rows are ordered by file and line. With the same content it is a duplicate, with
other content a conflict (`conflicts`).
"""

from bisect import bisect_left
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import polars as pl
import polars_hash as ph

from keyfold.ingestion.kafka.message_columns import message_columns
from keyfold.stream import Stream
from keyfold.times import to_micros

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Ids:
    """Events by the fingerprints of their ids.

    Attributes:
        first, second: two independent 64-bit hashes of the id.
        time: event time in microseconds since 1970.
        content: a digest of the event's columns that come from its content: not of its arrival, file or offset.
    """

    first: Hashes
    second: Hashes
    time: Numbers
    content: Hashes

    def __len__(self) -> int:
        return len(self.first)

    def take(self, positions: Numbers | Mask | slice) -> "Ids":
        """Return the events at some positions."""
        return Ids(self.first[positions], self.second[positions], self.time[positions], self.content[positions])

    def sorted_order(self) -> Numbers:
        """Return the positions sorted by first, second, time."""
        order = np.argsort(self.first)
        # Few ids share their first hash, so only those rows are sorted by all three. Assigning to the tied positions keeps
        # the order of the others.
        tied = _tied(self.first[order])
        if tied.any():
            # In their order, which the sort has mixed, so that events that are equal in all three keep it.
            among = np.sort(order[tied])
            order[tied] = among[np.lexsort((self.time[among], self.second[among], self.first[among]))]
        return order


def hash_ranges(count: int) -> Hashes:
    """Return the starts of `count` equal ranges of first hashes. Copies have the same hash, so they are in the same range."""
    return np.array([at * (2**64 // count) for at in range(count)], np.uint64)


def standing_at(ids: Ids, standing: Ids, window: int) -> Numbers:
    """Return for each row the position of the event ingested before that has its id, or -1 if it is new.

    If there are several, it is one with the row's content if any, else the nearest in time.

    Args:
        ids: the rows, in any order.
        standing: the earlier events, in `sorted_order`. May be memory-mapped.
        window: maximum difference of event times, in microseconds.
    """
    positions = np.full(len(ids), -1, np.int64)
    if not len(standing):
        return positions
    # Search by the first hash alone, which excludes nearly all rows. The second hash and the time decide among the rest.
    begin = np.searchsorted(standing.first, ids.first, "left")
    rows = np.flatnonzero(standing.first[np.minimum(begin, len(standing) - 1)] == ids.first)
    begin, some = begin[rows], ids.take(rows)
    end = np.searchsorted(standing.first, some.first, "right")
    # A binary search of all rows at once: for the first event of the id that is not earlier.
    low, high = begin.copy(), end.copy()
    while (is_open := low < high).any():
        middle = (low + high) // 2
        at = np.minimum(middle, len(standing) - 1)
        second = standing.second[at]
        is_before = (second < some.second) | ((second == some.second) & (standing.time[at] < some.time))
        low, high = np.where(is_open & is_before, middle + 1, low), np.where(is_open & ~is_before, middle, high)
    # Its neighbours in time are this one and the one before it.
    for neighbour in (low - 1, low):
        is_known = (begin <= neighbour) & (neighbour < end)
        at = np.clip(neighbour, 0, len(standing) - 1)
        is_known &= (standing.second[at] == some.second) & (np.abs(standing.time[at] - some.time) <= window)
        is_known &= (positions[rows] < 0) | (standing.content[at] == some.content)
        positions[rows[is_known]] = at[is_known]
    return positions


def kept_at(ids: Ids, order: Numbers, window: int) -> Numbers:
    """Return for each row the position of the earlier row of the batch that has its id and is kept, or -1 if itself is.

    Args:
        ids: the rows, without those with ids of earlier batches.
        order: the rows' positions in the input; the lower one is earlier.
        window: maximum difference of event times, in microseconds.
    """
    first = np.full(len(ids), -1, np.int64)
    sequence = np.argsort(ids.first)
    among = sequence[_tied(ids.first[sequence])]
    # Few rows share their id with another one, since those of `first_equal` are gone: they have another content or time.
    by_id: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for row in among[np.argsort(order[among])].tolist():
        time = int(ids.time[row])
        times, rows = by_id.setdefault((int(ids.first[row]), int(ids.second[row])), ([], []))
        at = bisect_left(times, time)
        # The two neighbours are enough, since `times` is sorted.
        near = [
            rows[neighbour]
            for neighbour in (at - 1, at)
            if 0 <= neighbour < len(times) and abs(times[neighbour] - time) <= window
        ]
        if near:
            first[row] = next((neighbour for neighbour in near if ids.content[neighbour] == ids.content[row]), near[0])
        else:
            times.insert(at, time)
            rows.insert(at, row)
    return first


def first_equal(ids: Ids, order: Numbers) -> Numbers:
    """Return for each row the position of the earliest one with the same id, time and content: its own if it is that.

    The others can be dropped before anything else is known, since they become of the earliest one what it becomes: copies of
    it if it is kept, and otherwise duplicates or conflicts as it is.

    Args:
        ids: the rows.
        order: the rows' positions in the input; the lower one is earlier.
    """
    first, by_hash = np.arange(len(ids)), np.argsort(ids.first)
    # Few rows share their first hash with another: all others are unequal to each.
    among = by_hash[_tied(ids.first[by_hash])]
    sequence = among[np.argsort(order[among], kind="stable")]
    names = ("first", "second", "time", "content")
    rows = pl.DataFrame({name: getattr(ids, name)[sequence] for name in names} | {"at": sequence})
    is_first = rows.select(pl.struct(names).is_first_distinct()).to_series()
    if not is_first.all():
        both = rows.filter(~is_first).join(rows.filter(is_first), on=names, suffix="_of_first")
        first[both["at"].to_numpy()] = both["at_of_first"].to_numpy()
    return first


def _tied(values: npt.NDArray[np.generic]) -> Mask:
    """Whether each value equals a neighbour. Equal values are adjacent."""
    same = values[1:] == values[:-1]
    edge = np.zeros(min(len(values), 1), np.bool_)
    return np.concatenate([same, edge]) | np.concatenate([edge, same])


ENCODING = "xxhash64+wyhash 1, contents 1"
"""Names the method of fingerprints. It must not change for a stream's ingest."""


def event_ids(stream: Stream, events: pl.DataFrame) -> Ids:
    """Compute the fingerprints of events.

    Args:
        stream: the stream, whose `event_id` names the columns that identify an event.
        events: events with all columns of the stream. Their event time is never NULL.
    """
    hashed = events.select(_encoded(stream, events).alias("id")).select(
        ph.col("id").nchash.xxhash64().alias("first"),  # pyright: ignore[reportAttributeAccessIssue]
        ph.col("id").nchash.wyhash().alias("second"),  # pyright: ignore[reportAttributeAccessIssue]
    )
    times = to_micros(events[stream.event_time]).astype(np.int64)
    return Ids(hashed["first"].to_numpy(), hashed["second"].to_numpy(), times, _contents(stream, events))


def content_columns(stream: Stream) -> list[str]:
    """Return the columns whose values come from an event's content: not from its arrival, its file, or from around a message."""
    sources = {name: stream.source(name) for name in stream.schema.names}
    if stream.missing_time == "arrival":
        del sources[stream.event_time]
    return [name for name, source in sources.items() if not source.path and not message_columns(source.raw_names)]


def _contents(stream: Stream, events: pl.DataFrame) -> Hashes:
    """Compute digests of contents: sums over the columns, in which NULL counts nothing, so that a new column changes none."""
    sums = np.zeros(events.height, np.uint64)
    for name in content_columns(stream):
        column = events[name]
        mixed = _numbers(column) ^ np.frombuffer(sha256(name.encode()).digest()[:8], np.uint64)
        # The finalizer of SplitMix64: each bit of the value changes half of the bits of the sum.
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        sums += np.where(column.is_null().to_numpy(), np.uint64(0), mixed)
    return sums


def _numbers(column: pl.Series) -> Hashes:
    """Return a number of 64 bits for each value: those of a number or time, or the hash of a text or a decimal; any for NULL."""
    frame = column.alias("value").to_frame()
    if column.dtype.is_nested():
        frame = frame.select(pl.struct("value").struct.json_encode().alias("value"))
    elif column.dtype.is_decimal():
        frame = frame.cast(pl.String)
    if frame["value"].dtype == pl.String:
        return frame.select(ph.col("value").nchash.xxhash64().fill_null(0)).to_series().to_numpy()  # pyright: ignore[reportAttributeAccessIssue]
    numbers = frame.select(_as_integer(pl.col("value"), column.dtype).fill_null(0)).to_series()
    return numbers.to_numpy().astype(np.uint64)


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
