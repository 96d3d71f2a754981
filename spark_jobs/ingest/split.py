"""A split: some of a batch's inputs, read by one worker, which validates their rows and writes them as data files.

What it gives back are names and counts. Nothing that it wrote counts before the batch's done record names it.
"""

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from spark_jobs.errors import KeyfoldError
from spark_jobs.ingest.birth import QUARANTINE
from spark_jobs.ingest.duplicates import Ids, Numbers, same_time_copies
from spark_jobs.ingest.event_ids import event_ids
from spark_jobs.ingest.parsing import Reject, UnreadableFileError, ValidatedRows, parse_file, parse_messages
from spark_jobs.ingest.records import AdmittedFile, IngestCounts
from spark_jobs.ingest.segments import Segment, copies_of_history, write_segment
from spark_jobs.ingest.sources.files import fingerprint, refusal
from spark_jobs.ingest.sources.kafka.messages import Messages, TopicReader, message_columns
from spark_jobs.ingest.sources.kafka.offsets import OffsetRange
from spark_jobs.ingest.sources.kafka.settings import PREFIX, KafkaSettings
from spark_jobs.lakehouse.data_files import WrittenFile, write_data_file
from spark_jobs.privacy import errors_without_values
from spark_jobs.streams import INGESTED_AT, Stream
from spark_jobs.times import micros, to_times

ROWS_A_FILE = 1_000_000
BYTES_A_FILE = 256 << 20
"""A split holds no more than about this in memory before it writes."""

_LINES = 1 << 40
"""More than an input has rows: a row's place in its batch is its input's place times this, and its line."""


@dataclass(frozen=True)
class TopicAccess:
    """How a worker reads a plan's topic. Passwords are not among it: the worker's own environment has them.

    Attributes:
        name: the topic's.
        bootstrap: addresses of brokers.
        settings: names of the further settings that the driver has.
        record_gaps: whether messages that are gone are recorded; else they are an error.
        is_gone: whether the topic that was planned is there no more, with all its messages.
        arrived_after: see `TopicShare`.
    """

    name: str
    bootstrap: str
    settings: tuple[str, ...]
    record_gaps: bool
    is_gone: bool = False
    arrived_after: datetime | None = None

    def where(self, partition: int) -> str:
        """What stands for a partition where a file's path would."""
        return f"{PREFIX}{self.name}/{partition}"


@dataclass(frozen=True)
class Split:
    """What a worker is given.

    Attributes:
        stream: what the files hold.
        batch: its number.
        arrived: when the files were admitted (UTC).
        landing: the landing folder, if it reads files.
        topic: how the topic is reached, if it reads one.
        events, quarantine: the tables' folders.
        ids: the folder of the index of ids.
        segments: those of the index that are live.
        files: with their place in the batch.
        ranges: the same of a topic.
    """

    stream: Stream
    batch: int
    arrived: datetime
    landing: Path
    topic: TopicAccess | None
    events: Path
    quarantine: Path
    ids: Path
    segments: tuple[Segment, ...]
    files: tuple[tuple[int, AdmittedFile], ...]
    ranges: tuple[tuple[int, OffsetRange], ...]


@dataclass(frozen=True)
class WrittenEvents:
    """A data file of events.

    Attributes:
        file: the file.
        segment: the ids of its rows; None where the stream has no event id.
        places: the name of a file, in the segment's order, of each row's place in the batch and in the data file.
    """

    file: WrittenFile
    segment: Segment | None = None
    places: str = ""


@dataclass
class SplitResult:
    """What a worker gives back; `fault` is why it could not go on, where that is the disk's fault, or Kafka's.

    `refused` is why it must not go on, for people.
    """

    counts: IngestCounts = field(default_factory=IngestCounts)
    events: list[WrittenEvents] = field(default_factory=list)
    rejects: list[WrittenFile] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)
    fault: str = ""
    refused: str = ""


def read_split(split: Split) -> SplitResult:
    """Read a split's inputs; runs in a Spark worker, or in the driver where there is little to do."""
    with errors_without_values(f"ingest of {split.stream.name}", split.stream.private):
        return _read_split(split)


def _read_split(split: Split) -> SplitResult:
    result = SplitResult()
    kept = _Rows(split)
    try:
        if split.topic is not None:
            _read_topic(split, split.topic, kept)
        for place, file in split.files:
            taken = _read(split, place, file)
            if taken is None:
                result.deferred.append(file.path)
                continue
            kept.add(taken)
            if kept.is_large:
                kept.write()
        kept.write()
    except OSError as error:
        kept.discard()
        result.fault = str(error)
        return result
    except KeyfoldError as error:
        kept.discard()
        result.refused = str(error)
        return result
    result.counts, result.events, result.rejects = kept.counts, kept.events, kept.rejected
    return result


def _read_topic(split: Split, access: TopicAccess, kept: "_Rows") -> None:
    """Take the rows of ranges of offsets."""
    if access.is_gone:
        for _, lost in split.ranges:
            kept.reject_gap(access, lost)
        return
    settings = KafkaSettings.of_worker(access.bootstrap, access.settings)
    columns = message_columns(split.stream.raw_schema.names)
    with TopicReader(settings, access.name, columns, record_gaps=access.record_gaps) as reader:
        for place, offsets in split.ranges:
            for found in reader.read(offsets):
                if isinstance(found, OffsetRange):
                    kept.reject_gap(access, found)
                    continue
                rows = parse_messages(
                    split.stream,
                    found.values,
                    found.offsets,
                    _arrivals(split, access, found),
                    beside=found.columns,
                    faults=found.faults,
                    path=access.name,
                )
                kept.take(rows, place, access.where(found.partition), first_line=offsets.start)
                if kept.is_large:
                    kept.write()


def _arrivals(split: Split, access: TopicAccess, messages: Messages) -> datetime | pl.Series:
    """When messages arrived: by the broker's clock where it says so, between the plan before and this one."""
    if messages.appended is None:
        return split.arrived
    arrived = to_times(messages.appended)
    if access.arrived_after is not None:
        arrived = arrived.clip(lower_bound=access.arrived_after)
    return arrived.clip(upper_bound=split.arrived)


def _read(split: Split, place: int, file: AdmittedFile) -> "_Rows | None":
    """The rows of a file; None where it is not any more what was planned."""
    path, taken = split.landing / file.path, _Rows(split)
    refused = file.refused or refusal(split.landing, file.path)
    if refused:
        taken.reject_file(str(path), refused)
        taken.counts += IngestCounts(files=1)
        return taken
    if not _is_as_planned(path, file):
        return None
    try:
        for rows in parse_file(split.stream, path, split.arrived, split.landing):
            taken.take(rows, place, str(path))
            # Written apart from the rows of other files: it may be found broken in its last line, and then none of it counts.
            if taken.is_large:
                taken.write()
    except UnreadableFileError as error:
        taken.discard()
        taken = _Rows(split)
        taken.reject_file(str(path), str(error))
    except BaseException:
        taken.discard()
        raise
    # And again at the end: a file that was written while it was read is read whole by a later run, or not at all.
    if not _is_as_planned(path, file):
        taken.discard()
        return None
    taken.counts += IngestCounts(files=1)
    return taken


class _Rows:
    """Rows on their way into data files."""

    def __init__(self, split: Split) -> None:
        self.counts = IngestCounts()
        self.events: list[WrittenEvents] = []
        self.rejected: list[WrittenFile] = []
        self._split = split
        self._frames: list[pl.DataFrame] = []
        self._places: list[Numbers] = []
        self._rejects: list[tuple[str, Reject | str]] = []
        self._rows = self._bytes = 0

    @property
    def is_large(self) -> bool:
        return self._rows >= ROWS_A_FILE or self._bytes >= BYTES_A_FILE

    def take(self, rows: ValidatedRows, place: int, file: str, first_line: int = 0) -> None:
        """Take a chunk of an input, whose lines count from `first_line` on."""
        rejected = len(rows.rejects)
        self.counts += IngestCounts(0, rows.read, rows.read - rejected, rejected, untimed=rows.untimed)
        if rows.accepted.height:
            self._frames.append(rows.accepted)
            # Offsets may be of any size, and how many an input has is not.
            self._places.append(place * _LINES + (rows.lines - first_line))
        self._rejects += [(file, reject) for reject in rows.rejects]
        self._rows += rows.read
        self._bytes += rows.accepted.estimated_size() + sum(len(reject.raw) for reject in rows.rejects)

    def reject_file(self, file: str, reason: str) -> None:
        """Reject a file as a whole."""
        self._rejects.append((file, reason))
        self.counts += IngestCounts(rows_read=1, quarantined=1)

    def reject_gap(self, access: TopicAccess, lost: OffsetRange) -> None:
        """Record messages that are gone."""
        if lost.start == lost.end:
            return
        reason = (
            f"offsets {lost.start} to {lost.end - 1} were deleted by Kafka before they were read (retention): what they held "
            "is in no table"
        )
        self._rejects.append((access.where(lost.partition), Reject("", lost.start, reason)))
        self._rows += 1
        self.counts += IngestCounts(rows_read=1, quarantined=1)

    def add(self, other: "_Rows") -> None:
        """Take all that another holds."""
        self.counts += other.counts
        self.events += other.events
        self.rejected += other.rejected
        self._frames += other._frames
        self._places += other._places
        self._rejects += other._rejects
        self._rows += other._rows
        self._bytes += other._bytes

    def write(self) -> None:
        """Write what is in memory."""
        if self._rejects:
            self.rejected.append(_write_rejects(self._split, self._rejects))
        if self._frames:
            frame, places = pl.concat(self._frames), np.concatenate(self._places)
            self._frames, self._places = [], []
            duplicates, written = _write_events(self._split, frame, places)
            self.counts += IngestCounts(accepted=-duplicates, duplicates=duplicates)
            self.events += written
        self._frames, self._places, self._rejects = [], [], []
        self._rows = self._bytes = 0

    def discard(self) -> None:
        """Remove what was written."""
        for one in self.events:
            (self._split.events / one.file.path).unlink(missing_ok=True)
            if one.segment is not None:
                (self._split.ids / one.segment.name).unlink(missing_ok=True)
                (self._split.ids / one.places).unlink(missing_ok=True)
        for file in self.rejected:
            (self._split.quarantine / file.path).unlink(missing_ok=True)


def _write_events(split: Split, frame: pl.DataFrame, places: Numbers) -> tuple[int, list[WrittenEvents]]:
    """Write accepted rows but for those that are copies already; gives back how many those are."""
    stream = split.stream
    ids = event_ids(stream, frame) if stream.event_id else None
    copies = 0
    if ids is not None:
        found = copies_of_history(split.ids, split.segments, ids, micros(stream.duplicate_window))
        # Of others it is not known yet what stands: an earlier split may hold a copy that rules out the nearer one.
        found |= same_time_copies(ids, places)
        if copies := int(found.sum()):
            frame, ids, places = frame.filter(~found), ids.take(~found), places[~found]
    parts = [(frame, places, ids)]
    if stream.missing_time == "arrival":
        # Apart: beside a history they would make one file that spans years, and jobs read by spans of time.
        stands_in = (frame[stream.event_time] == frame[INGESTED_AT]).to_numpy()
        parts = [
            (frame.filter(one), places[one], None if ids is None else ids.take(one)) for one in (~stands_in, stands_in)
        ]
    return copies, [_write_part(split, *part) for part in parts if part[0].height]


def _write_part(split: Split, frame: pl.DataFrame, places: Numbers, ids: Ids | None) -> WrittenEvents:
    """Write rows as one data file, in order of time."""
    stream = split.stream
    times = frame[stream.event_time]
    if not times.is_sorted():
        order = times.arg_sort().to_numpy().astype(np.int64)
        frame, places = frame[order], places[order]
        ids = ids.take(order) if ids is not None else None
    file = write_data_file(frame, split.events, stream.event_schema)
    if ids is None:
        return WrittenEvents(file)
    order = ids.sorted_order()
    segment = write_segment(split.ids, ids.take(order))
    name = f"{uuid.uuid4().hex}.places.npy"
    np.save(split.ids / name, np.stack([places[order], order]))
    return WrittenEvents(file, segment, name)


def _write_rejects(split: Split, rejects: Sequence[tuple[str, Reject | str]]) -> WrittenFile:
    rows = [
        (None, file, None, reject) if isinstance(reject, str) else (reject.raw, file, reject.line, reject.reason)
        for file, reject in rejects
    ]
    schema = {"raw": pl.String, "file": pl.String, "line": pl.Int64, "reason": pl.String}
    frame = pl.DataFrame(rows, schema, orient="row").with_columns(batch=pl.lit(split.batch, pl.Int64))
    return write_data_file(frame, split.quarantine, QUARANTINE)


def _is_as_planned(path: Path, file: AdmittedFile) -> bool:
    """Whether a file is what it was when it was admitted."""
    try:
        found = os.stat(path)
        if (found.st_size, found.st_mtime_ns, found.st_ctime_ns) == (file.size, file.modified_at, file.changed_at):
            return True
        # Copied or touched: other times, the same content.
        return found.st_size == file.size and fingerprint(path) == file.fingerprint
    except FileNotFoundError:
        return False
    except OSError:
        return True
