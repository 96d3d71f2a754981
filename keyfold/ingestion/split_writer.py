"""Write a split's rows as data files: accepted rows in order of time, rejected ones to quarantine."""

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from keyfold.ingestion.arrays import write_array
from keyfold.ingestion.conflicts import Event, as_raw, conflict_reason, look_up
from keyfold.ingestion.duplicates import Ids, Numbers, event_ids, first_equal
from keyfold.ingestion.ingest_records import IngestCounts
from keyfold.ingestion.ingest_settings import QUARANTINE
from keyfold.ingestion.kafka.offsets import OffsetRange
from keyfold.ingestion.parsing import Reject, UnreadableFileError, ValidatedRows
from keyfold.ingestion.segments import find_standing, write_segment
from keyfold.ingestion.split import LINES, Split, SplitResult, TopicAccess, WrittenEvents
from keyfold.lakehouse.data_files import WrittenFile, write_data_file
from keyfold.storage.place import Place
from keyfold.stream import INGESTED_AT, Stream
from keyfold.times import micros

ROWS_A_FILE = 1_000_000
BYTES_A_FILE = 256 << 20
"""Approximate limits of what a split holds in memory before it writes."""

Rejected = tuple[str, str | None, Reject | UnreadableFileError]
"""A file, its header if it is CSV, and a rejected row, or why the file is rejected as a whole."""


class SplitWriter:
    """Collects the rows of a split, and writes them as data files. `result` has what was written."""

    def __init__(self, split: Split) -> None:
        self.result = SplitResult()
        self._split = split
        self._frames: list[pl.DataFrame] = []
        self._places: list[Numbers] = []
        self._rejects: list[Rejected] = []
        self._rows = self._bytes = 0

    @property
    def is_large(self) -> bool:
        """Whether enough is in memory to write it."""
        return self._rows >= ROWS_A_FILE or self._bytes >= BYTES_A_FILE

    def take(self, rows: ValidatedRows, place: int, file: str, first_line: int = 0) -> None:
        """Add rows of an input, whose lines are numbered from `first_line` on."""
        rejected = len(rows.rejects)
        self.result.counts += IngestCounts(0, rows.read, rows.read - rejected, rejected, untimed=rows.untimed)
        self.result.counts += IngestCounts(without_zone=rows.without_zone)
        if rows.accepted.height:
            self._frames.append(rows.accepted)
            # Relative to the first line, since offsets may be larger than `LINES`.
            self._places.append(place * LINES + (rows.lines - first_line))
        self._rejects += [(file, rows.header or None, reject) for reject in rows.rejects]
        self._rows += rows.read
        self._bytes += rows.accepted.estimated_size() + sum(len(reject.raw) for reject in rows.rejects)

    def reject_file(self, file: str, error: UnreadableFileError) -> None:
        """Reject a file as a whole."""
        self._rejects.append((file, None, error))
        self.result.counts += IngestCounts(rows_read=1, quarantined=1)

    def count_file(self) -> None:
        """Count a file that was read."""
        self.result.counts += IngestCounts(files=1)

    def reject_gap(self, access: TopicAccess, lost: OffsetRange) -> None:
        """Record expired messages as one rejected row."""
        if lost.start == lost.end:
            return
        reason = (
            f"offsets {lost.start} to {lost.end - 1} were deleted by Kafka before they were read (retention): these messages "
            "are in no table"
        )
        self._rejects.append((access.partition_name(lost.partition), None, Reject("", lost.start, reason)))
        self._rows += 1
        self.result.counts += IngestCounts(rows_read=1, quarantined=1)

    def add(self, other: "SplitWriter") -> None:
        """Add everything of another writer."""
        self.result.counts += other.result.counts
        self.result.events += other.result.events
        self.result.rejects += other.result.rejects
        self._frames += other._frames
        self._places += other._places
        self._rejects += other._rejects
        self._rows += other._rows
        self._bytes += other._bytes

    def write(self) -> None:
        """Write what is in memory."""
        if self._frames:
            frame, places = pl.concat(self._frames), np.concatenate(self._places)
            self._frames, self._places = [], []
            self._write_events(frame, places)
        if self._rejects:
            self.result.rejects.append(write_rejects(self._split.quarantine, self._split.batch, self._rejects))
        self._frames, self._places, self._rejects = [], [], []
        self._rows = self._bytes = 0

    def _write_events(self, frame: pl.DataFrame, places: Numbers) -> None:
        """Write accepted rows, without those whose ids are known."""
        split, stream = self._split, self._split.stream
        ids = event_ids(stream, frame) if stream.event_id else None
        rows_to_write = _Rows(frame, places, ids)
        if ids is not None:
            standing = find_standing(split.ids, split.segments, ids, micros(stream.duplicate_window))
            # Other copies within the batch are decided later, since they depend on the rows of earlier splits.
            first = first_equal(ids, places)
            is_new = ~standing.is_known & (first == np.arange(len(ids)))
            if not is_new.all():
                conflicts = np.flatnonzero(standing.is_known & ~standing.is_equal)
                rows = frame[conflicts]
                old = look_up(stream, split.events, rows, standing.time[conflicts])
                self._rejects += conflicting(stream, split.origins, rows, places[conflicts], old)
                count, duplicates = len(conflicts), int((~is_new).sum()) - len(conflicts)
                self.result.counts += IngestCounts(
                    accepted=-count - duplicates, quarantined=count, duplicates=duplicates
                )
                copies = np.flatnonzero(~standing.is_known & ~is_new)
                rows_to_write = _Rows(frame, places, ids, np.stack([places[copies], first[copies]])).take(
                    np.flatnonzero(is_new)
                )
        parts = [rows_to_write]
        if stream.missing_time == "arrival":
            # Rows with their arrival time go to a separate file. Together with old events, a file would span years, and jobs
            # select files by their time span.
            by_arrival = (rows_to_write.frame[stream.event_time] == rows_to_write.frame[INGESTED_AT]).to_numpy()
            parts = [rows_to_write.take(np.flatnonzero(mask)) for mask in (~by_arrival, by_arrival)]
        self.result.events += [_write_part(split, part) for part in parts if part.frame.height]

    def discard(self) -> None:
        """Remove what was written."""
        for events in self.result.events:
            (self._split.events / events.file.path).unlink(missing_ok=True)
            if events.segment is not None:
                (self._split.ids / events.segment.name).unlink(missing_ok=True)
                (self._split.ids / events.places).unlink(missing_ok=True)
        for file in self.result.rejects:
            (self._split.quarantine / file.path).unlink(missing_ok=True)


class _Rows(NamedTuple):
    """Accepted rows, their positions in the batch, and their ids if they have any.

    `copies` are rows that equal one of them and were dropped: the position in the batch of each, and the row that it equals.
    """

    frame: pl.DataFrame
    places: Numbers
    ids: Ids | None
    copies: Numbers = np.empty((2, 0), np.int64)

    def take(self, at: Numbers) -> "_Rows":
        """Return the rows at some positions, with their copies."""
        moved = np.full(self.frame.height, -1)
        moved[at] = np.arange(len(at))
        copies = np.stack([self.copies[0], moved[self.copies[1]]])
        ids = None if self.ids is None else self.ids.take(at)
        return _Rows(self.frame[at], self.places[at], ids, copies[:, copies[1] >= 0])


def _write_part(split: Split, rows: _Rows) -> WrittenEvents:
    """Write rows as one data file, in order of time."""
    stream = split.stream
    times = rows.frame[stream.event_time]
    if not times.is_sorted():
        rows = rows.take(times.arg_sort().to_numpy().astype(np.int64))
    file = write_data_file(rows.frame, split.events, stream.event_schema)
    if rows.ids is None:
        return WrittenEvents(file)
    # The driver needs the positions to compare rows of different splits, and to find copies in this file again.
    order = rows.ids.sorted_order()
    segment = write_segment(split.ids, rows.ids.take(order))
    name = f"{uuid.uuid4().hex}.places.npy"
    write_array(split.ids / name, np.concatenate([np.stack([rows.places[order], order]), rows.copies], axis=1))
    return WrittenEvents(file, segment, name)


def conflicting(
    stream: Stream,
    origins: Mapping[int, tuple[str, int]],
    rows: pl.DataFrame,
    places: Numbers,
    old: Sequence[Event | None],
) -> list[Rejected]:
    """Return the rejects of rows with ids of other events, which are `old` where they were found."""
    rejects: list[Rejected] = []
    for row, place, other in zip(rows.to_dicts(), places.tolist(), old, strict=True):
        at, line = divmod(place, LINES)
        file, first = origins[at]
        raw, header = as_raw(stream, row, file)
        rejects.append((file, header, Reject(raw, first + line, conflict_reason(stream, row, other))))
    return rejects


def write_rejects(quarantine: Place, batch: int, rejects: Sequence[Rejected]) -> WrittenFile:
    """Write rejected rows and files as a data file of a quarantine."""
    rows = [
        (reject.sample or None, file, None, str(reject), None)
        if isinstance(reject, UnreadableFileError)
        else (reject.raw, file, reject.line, reject.reason, header)
        for file, header, reject in rejects
    ]
    schema = {"raw": pl.String, "file": pl.String, "line": pl.Int64, "reason": pl.String, "header": pl.String}
    frame = pl.DataFrame(rows, schema, orient="row").with_columns(batch=pl.lit(batch, pl.Int64))
    return write_data_file(frame, quarantine, QUARANTINE)
