"""The index of ingested event ids: sorted, memory-mapped segments. A batch reads the segments that overlap its event times.

A segment is a file with four rows of numbers: two hashes of the id, event time, digest of the content. Segments never change; the journal says
which are live. Small segments are merged with neighbours in time. So their number grows with the logarithm of the events (and
by one every two million), and segments of old times are not read.

Ids are no state of the engine, whose parts are sorted by the hash of the key and not divided by time: of 1,000 new ids beside 100 million
its parts took 0.34 processor seconds a batch, and segments 0.001 for events of the newest day, and 0.06 for events of all times.
"""

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from keyfold.ingestion.arrays import Array, open_array, write_array
from keyfold.ingestion.duplicates import Ids, Mask, Numbers, content_columns, event_ids, standing_at
from keyfold.lakehouse.data_files import PathBelow
from keyfold.lakehouse.log_changes import snapshot
from keyfold.lakehouse.reading import read_parquet
from keyfold.storage.place import Place
from keyfold.stream import Stream
from keyfold.times import micros
from keyfold.validation import Record

_FEWEST = 1 << 10
"""Rows of a segment below which size classes do not differ."""
_MERGED_AT_ONCE = 8
_LARGEST = 2 << 20
"""Most rows of a merged segment, 64 MB: a merge holds them three times."""
_BYTES_A_ROW = 32
_ANY_TIME = 1 << 62
_HEADER = 128
"""Bytes before the numbers in an .npy file of this shape."""


class Segment(Record):
    """A file of the index.

    Attributes:
        name: the file's name.
        rows: number of ids.
        first, last: the oldest and the newest event time, in microseconds since 1970.
        checksum: the file's checksum.
    """

    name: PathBelow
    rows: int
    first: int
    last: int
    checksum: str

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return _HEADER + self.rows * _BYTES_A_ROW


def write_segment(folder: Place, ids: Ids) -> Segment:
    """Write ids durably as a new segment. There must be at least one, and they must be in `sorted_order`.

    Raises:
        OSError: the disk is full or fails.
    """
    path = folder / f"{uuid.uuid4().hex}.npy"
    checksum = write_array(path, _rows(ids))
    return Segment(
        name=path.name, rows=len(ids), first=int(ids.time.min()), last=int(ids.time.max()), checksum=checksum
    )


def open_segment(folder: Place, segment: Segment) -> Ids:
    """Memory-map the ids of a segment.

    Raises:
        DamagedArrayError: the segment is damaged.
    """
    # Memory-mapped: a batch reads only the pages that its searches touch, however large the index is.
    rows = open_array(folder / segment.name, segment.checksum)
    return Ids(rows[0], rows[1], rows[2].view(np.int64), rows[3])


@dataclass(frozen=True)
class Standing:
    """The events ingested before that have the ids of some rows.

    Attributes:
        is_known: whether there is one, for each row.
        is_equal: whether one has the row's content.
        time: its event time in microseconds since 1970.
    """

    is_known: Mask
    is_equal: Mask
    time: Numbers


def find_standing(folder: Place, segments: Iterable[Segment], ids: Ids, window: int) -> Standing:
    """Find the events ingested before with the ids of some rows; see `standing_at`."""
    standing_of_ids = Standing(np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.int64))
    if not len(ids):
        return standing_of_ids
    first, last = int(ids.time.min()) - window, int(ids.time.max()) + window
    met = [segment for segment in segments if segment.first <= last and segment.last >= first]
    # Sorted, so that successive searches touch neighbouring pages.
    order = np.argsort(ids.first) if met else np.zeros(0, np.int64)
    in_order = ids.take(order)
    for segment in met:
        standing = open_segment(folder, segment)
        at = standing_at(in_order, standing, window)
        rows, at = order[at >= 0], at[at >= 0]
        standing_of_ids.is_equal[rows] |= standing.content[at] == ids.content[rows]
        standing_of_ids.is_known[rows] = True
        standing_of_ids.time[rows] = standing.time[at]
    return standing_of_ids


def merge_segments(folder: Place, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Merge segments if there are many of similar size, and return the live ones."""
    live = sorted(segments, key=lambda segment: segment.first)
    while (many := _many_of_a_size(live)) is not None:
        merged = _merge(folder, many)
        live = sorted(
            [*(segment for segment in live if segment not in many), merged], key=lambda segment: segment.first
        )
    return tuple(live)


def drop_before(folder: Place, segments: Iterable[Segment], since: datetime | None) -> tuple[Segment, ...]:
    """Drop ids that are no longer needed, and return the live segments.

    Args:
        folder: the folder of the index.
        segments: the live segments.
        since: ids of events before this time are not needed; None if all are.

    Raises:
        OSError: the disk is full or fails.
        DamagedArrayError: a segment is damaged.
    """
    if since is None:
        return tuple(segments)
    bound, live = micros(since), list[Segment]()
    for segment in segments:
        if segment.last < bound:
            continue
        # Rewrite a segment once half of its time span is old. Otherwise one that spans years would keep all its ids for years.
        is_half_over = (segment.first + segment.last) // 2 < bound
        live.append(_shortened(folder, segment, bound) if is_half_over else segment)
    return tuple(live)


def without_ids(folder: Place, segments: Iterable[Segment], ids: Ids) -> tuple[Segment, ...]:
    """Take all events with some ids out of the index, whatever their times and contents, and return the live segments.

    Raises:
        OSError: the disk is full or fails.
        DamagedArrayError: a segment is damaged.
    """
    live: list[Segment] = []
    for segment in segments:
        opened = open_segment(folder, segment)
        at = standing_at(opened, ids.take(ids.sorted_order()), _ANY_TIME)
        if (at < 0).all():
            live.append(segment)
        elif (at < 0).any():
            live.append(write_segment(folder, opened.take(at < 0)))
    return tuple(live)


def missing_segments(folder: Place, segments: Iterable[Segment]) -> list[str]:
    """Return the names of segments that are missing or incomplete."""
    # The size is enough: rows have a fixed width, and files were synced before their names were recorded.
    sizes = {file.path.name: file.size for file in folder.files_below()}
    return [segment.name for segment in segments if sizes.get(segment.name) != segment.bytes]


def rebuild_segments(
    folder: Place, stream: Stream, events: Place, since: datetime | None = None
) -> tuple[Segment, ...]:
    """Rebuild the index from the event table, file by file; with `since`, only for events from that time on."""
    columns = list(dict.fromkeys([*stream.event_id, stream.event_time, *content_columns(stream)]))
    bound, live = None if since is None else micros(since), list[Segment]()
    for file in snapshot(events, stream.event_time).files:
        if bound is not None and (file.last is None or file.last < bound):
            continue
        # One file at a time, since a table may be larger than memory. Merging on the way bounds the number of segments.
        ids = event_ids(stream, read_parquet(events / file.path, columns=columns))
        if bound is not None:
            ids = ids.take(ids.time >= bound)
        if len(ids):
            live = [*merge_segments(folder, [*live, write_segment(folder, ids.take(ids.sorted_order()))])]
    return tuple(live)


def sweep_segments(folder: Place, live: Collection[str]) -> None:
    """Remove segments that are not live: those of failed attempts, and those that were merged."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.suffix == ".npy" and path.name not in live:
                path.unlink(missing_ok=True)


def _shortened(folder: Place, segment: Segment, bound: int) -> Segment:
    ids = open_segment(folder, segment)
    return write_segment(folder, ids.take(ids.time >= bound))


def _merge(folder: Place, segments: Sequence[Segment]) -> Segment:
    opened = [open_segment(folder, segment) for segment in segments]
    ids = Ids(
        *(np.concatenate([getattr(ids, part) for ids in opened]) for part in ("first", "second", "time", "content"))
    )
    return write_segment(folder, ids.take(ids.sorted_order()))


def _rows(ids: Ids) -> Array:
    return np.stack([ids.first, ids.second, ids.time.view(np.uint64), ids.content])


def _many_of_a_size(live: Sequence[Segment]) -> list[Segment] | None:
    """Return segments of similar size to merge next, neighbours in time; None if there are not enough of any size."""
    sizes: dict[int, list[Segment]] = {}
    for segment in live:
        # Large segments are not merged: repeated merging would cost more than it saves in look-ups.
        if segment.rows < _LARGEST // 2:
            # Size classes by powers of eight (three bits), the number of segments that are merged at once.
            sizes.setdefault(max(segment.rows // _FEWEST, 1).bit_length() // 3, []).append(segment)
    for _, alike in sorted(sizes.items()):
        if len(alike) >= _MERGED_AT_ONCE:
            chosen, rows = list(alike[:2]), sum(segment.rows for segment in alike[:2])
            for segment in alike[2:_MERGED_AT_ONCE]:
                if (rows := rows + segment.rows) > _LARGEST:
                    break
                chosen.append(segment)
            return chosen
    return None
