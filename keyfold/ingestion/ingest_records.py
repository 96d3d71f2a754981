"""The records of ingest's journal: plans (files or offsets of a batch), commit records (its results), and their summary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from pydantic import Field

from keyfold.errors import counted, in_few_lines
from keyfold.ingestion.kafka.offsets import OffsetRange, ReadTopic, TopicShare, cut_pieces
from keyfold.ingestion.segments import Segment
from keyfold.journal import Done, Plan
from keyfold.validation import Record


@dataclass(frozen=True)
class IngestCounts:
    """Counts of files and rows. `rows_read` = `accepted` + `quarantined` + `duplicates`, always.

    A file that is rejected as a whole counts as one row read and quarantined, and so does a gap in a topic. `untimed` rows had
    no event time and got their arrival time; they are also counted as accepted or duplicates. `without_zone` counts times of rows
    that were read, which had no zone and were taken for UTC, since the stream names none.
    """

    files: int = 0
    rows_read: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0
    untimed: int = 0
    without_zone: int = 0

    def __add__(self, other: Self) -> "IngestCounts":
        return IngestCounts(**{name: value + getattr(other, name) for name, value in vars(self).items()})


class AdmittedFile(Record):
    """The version of a landing file that was admitted.

    Attributes:
        path: relative to its landing folder.
        size: bytes.
        modified_at, changed_at: the file's times, in nanoseconds since 1970, used only to detect changes.
        fingerprint: a digest of its content; empty if it could not be read.
        refused: why it must not be read; None if it may.
    """

    path: str
    size: int
    modified_at: int
    changed_at: int
    fingerprint: str
    refused: str | None = None


class IngestPlan(Plan):
    """The files, or the offsets of a topic, that a batch reads. `planned_at` is when they were admitted.

    Attributes:
        source: the landing folder, relative if it is inside the lakehouse directory, so that this may be moved; or
            `kafka://TOPIC`.
        files: the files, in the order of their paths.
        topic: the offsets, if the source is a topic.
        oldest: the oldest event time that is accepted, the same in all batches of a run; None if any is.
    """

    source: str
    files: tuple[AdmittedFile, ...] = ()
    topic: TopicShare | None = None
    oldest: datetime | None = None

    @property
    def amount(self) -> int:
        """Estimated bytes to read."""
        return sum(input_.size for input_ in (self.topic.ranges if self.topic else self.files))

    def inputs(self, count: int) -> Sequence[AdmittedFile | OffsetRange]:
        """Return the inputs, in order. Offsets are cut into pieces for `count` readers."""
        return cut_pieces(self.topic.ranges, count) if self.topic else self.files

    def describe(self) -> str:
        """Return a line of text about the batch's inputs."""
        if self.topic is not None:
            return f"{', '.join(_describe(offsets) for offsets in self.topic.ranges) or 'nothing'} of {self.source}"
        count = len(self.files)
        size = sum(file.size for file in self.files) / 1e6
        return f"{count:,} {'file' if count == 1 else 'files'}, {size:,.1f} MB of {self.source}"


class IngestDone(Done):
    """The results of a batch.

    Attributes:
        counts: the counts of this batch.
        totals: the counts of all batches up to this one.
        segments: the index of event ids after this batch.
        ids_since: the index lacks ids of events before this time; None if it has all.
        newest: the newest event time of all batches up to this one, if the stream has a `max_age`.
        deferred: files that changed or were removed while they were read. None of their rows count; a later run reads them.
        topics: how far each topic has been read, by source.
    """

    counts: IngestCounts
    totals: IngestCounts
    segments: tuple[Segment, ...] = ()
    ids_since: datetime | None = None
    newest: datetime | None = None
    deferred: tuple[str, ...] = ()
    topics: dict[str, ReadTopic] = Field(default_factory=dict)

    def describe(self) -> str:
        """Return a line of text about the batch's results."""
        counts = self.counts
        untimed = f"; {counts.untimed:,} without a time" if counts.untimed else ""
        left = f"; {counted(len(self.deferred), 'file')} changed while being read: read later" if self.deferred else ""
        return (
            f"{counted(counts.rows_read, 'row')}: {counts.accepted:,} accepted, {counts.quarantined:,} quarantined, "
            f"{counted(counts.duplicates, 'duplicate')}{untimed}{left}"
        )


def _describe(offsets: OffsetRange) -> str:
    kind = "gap" if offsets.is_lost else "offsets"
    return f"partition {offsets.partition} {kind} {offsets.start}..{offsets.end}"


@dataclass(frozen=True)
class IngestSummary:
    """The results of one run.

    Attributes:
        stream: the stream's name.
        source: the landing folder, or `kafka://TOPIC`.
        files, rows_read, accepted, quarantined, duplicates, untimed, without_zone: this run's counts.
        totals: the counts over all runs and sources of the stream.
        waiting: number of files for a later run: not complete yet, or changed while they were read.
        changed: files that changed after they were read, by path, each with how they changed.
        reread: whether those were read again.
        batches: number of batches, with those that an earlier run had left.
        seconds: duration of the run.
        warnings: other warnings.
    """

    stream: str
    source: str
    files: int
    rows_read: int
    accepted: int
    quarantined: int
    duplicates: int
    untimed: int
    without_zone: int
    waiting: int
    changed: dict[str, str]
    reread: bool
    totals: IngestCounts
    batches: int
    seconds: float
    warnings: tuple[str, ...] = ()

    def describe(self) -> list[str]:
        """Return the warnings, one line each."""
        remedy = (
            "it was read again"
            if self.reread
            else "it was not read again; --reread-changed (in Dagster: reread_changed) does so for streams with an event id"
        )
        names = [f"{path} {change} after it was read; {remedy}" for path, change in self.changed.items()]
        return [
            *self.warnings,
            *zone_warnings(self.stream, self.without_zone),
            *in_few_lines(names, "files have changed"),
        ]


def zone_warnings(stream: str, count: int) -> list[str]:
    """Return the warning of a number of times without a zone, if there are any."""
    if not count:
        return []
    return [
        f"{counted(count, 'time')} without a zone, taken for UTC: say in stream {stream} which zone is meant, by "
        "format=FileFormat(zone='Europe/Berlin') or zone='UTC'"
    ]


def added(so_far: IngestSummary, run: IngestSummary) -> IngestSummary:
    """Return the summary of a stream's runs together: what waits, and the totals, are those of the later one."""
    counts = (
        "files",
        "rows_read",
        "accepted",
        "quarantined",
        "duplicates",
        "untimed",
        "without_zone",
        "batches",
        "seconds",
    )
    return replace(
        run,
        **{name: getattr(so_far, name) + getattr(run, name) for name in counts},
        changed={**so_far.changed, **run.changed},
        warnings=tuple(dict.fromkeys([*so_far.warnings, *run.warnings])),
    )
