"""What ingest's journal holds: the files or offsets that a batch reads, and what came of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from keyfold.ingestion.segments import Segment
from keyfold.ingestion.sources.kafka.offsets import OffsetRange, ReadTopic, TopicShare, cut_pieces
from keyfold.journal import Done, Plan


@dataclass(frozen=True)
class IngestCounts:
    """Files and rows; `rows_read` = `accepted` + `quarantined` + `duplicates`, always.

    A file that is rejected as a whole counts as one row read and one quarantined, and so does a gap in a topic.
    `untimed` rows had no time of their own and are of their arrival; they are among the accepted and the duplicates.
    """

    files: int = 0
    rows_read: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0
    untimed: int = 0

    def __add__(self, other: Self) -> "IngestCounts":
        return IngestCounts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


class AdmittedFile(BaseModel):
    """A landing file as it was when it was admitted.

    Attributes:
        path: below its landing folder.
        size: bytes.
        modified_at, changed_at: its own times, nanoseconds since 1970; they tell whether it is as it was, and no more.
        fingerprint: a digest of its content; empty where it could not be read.
        refused: why it must not be read; None where it may.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    size: int
    modified_at: int
    changed_at: int
    fingerprint: str
    refused: str | None = None


class IngestPlan(Plan):
    """The files, or the offsets of a topic, that a batch reads; `planned_at` is when they were admitted.

    Attributes:
        source: the landing folder: below the lakehouse's home as a relative path, so that the home may move; or the
            topic, as `kafka://TOPIC`.
        files: in order of their paths.
        topic: which offsets, where it reads a topic.
        oldest: the least event time that is accepted; None where any is. All batches of a run have the same.
        conditions: those by which rows go to the streams that share the source; empty where the stream is alone.
    """

    source: str
    files: tuple[AdmittedFile, ...] = ()
    topic: TopicShare | None = None
    oldest: datetime | None = None
    conditions: str = ""

    @property
    def size(self) -> int:
        """Bytes that it reads, about."""
        return sum(one.size for one in (self.topic.ranges if self.topic else self.files))

    def inputs(self, count: int) -> Sequence[AdmittedFile | OffsetRange]:
        """What it reads, in order, in pieces that can be shared out among so many readers."""
        return cut_pieces(self.topic.ranges, count) if self.topic else self.files

    def describe(self) -> str:
        """What the batch reads, in a line for people."""
        if self.topic is not None:
            return f"{', '.join(_told(one) for one in self.topic.ranges) or 'nothing'} of {self.source}"
        count = len(self.files)
        size = sum(file.size for file in self.files) / 1e6
        return f"{count:,} {'file' if count == 1 else 'files'}, {size:,.1f} MB of {self.source}"


class IngestDone(Done):
    """What came of a batch.

    Attributes:
        counts: of this batch.
        totals: of all batches up to this one.
        segments: the index of ids, this batch's among them.
        ids_since: the index need not hold ids of events before this time; None where it holds all.
        newest: the newest event time of all batches up to this one, where the stream has a `max_age`.
        deferred: files that changed or went while they were read: nothing of them counts, a later run reads them.
        topics: how far each topic is read, by source.
    """

    counts: IngestCounts
    totals: IngestCounts
    segments: tuple[Segment, ...] = ()
    ids_since: datetime | None = None
    newest: datetime | None = None
    deferred: tuple[str, ...] = ()
    topics: dict[str, ReadTopic] = Field(default_factory=dict)

    def describe(self) -> str:
        """What came of the batch, in a line for people."""
        counts = self.counts
        untimed = f"; {counts.untimed:,} without a time" if counts.untimed else ""
        left = f"; {len(self.deferred):,} files changed while they were read and wait" if self.deferred else ""
        return (
            f"{counts.rows_read:,} rows: {counts.accepted:,} accepted, {counts.quarantined:,} quarantined, "
            f"{counts.duplicates:,} duplicates{untimed}{left}"
        )


def _told(offsets: OffsetRange) -> str:
    what = "gap" if offsets.is_lost else "offsets"
    return f"partition {offsets.partition} {what} {offsets.start}..{offsets.end}"
