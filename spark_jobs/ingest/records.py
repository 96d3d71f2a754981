"""What ingest's journal holds: the files that a batch reads, and what came of them."""

from dataclasses import asdict, dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict

from spark_jobs.ingest.segments import Segment
from spark_jobs.journal import Done, Plan


@dataclass(frozen=True)
class IngestCounts:
    """Files and rows; `rows_read` = `accepted` + `quarantined` + `duplicates`, always.

    A file that is rejected as a whole counts as one row read and one quarantined.
    """

    files: int = 0
    rows_read: int = 0
    accepted: int = 0
    quarantined: int = 0
    duplicates: int = 0

    def __add__(self, other: Self) -> "IngestCounts":
        return IngestCounts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})


class AdmittedFile(BaseModel):
    """A landing file as it was when it was admitted.

    Attributes:
        path: below its landing folder.
        size: bytes.
        modified_at, changed_at: its own times, nanoseconds since 1970; they tell whether it is as it was, and no more.
        fingerprint: a digest of its size, its beginning and its end; empty where it could not be read.
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
    """The files that a batch reads, in order; `planned_at` is when they were admitted, and so their time of arrival.

    Attributes:
        source: the landing folder: below the lakehouse's home as a relative path, so that the home may move.
        files: in order of their paths.
    """

    source: str
    files: tuple[AdmittedFile, ...]

    def describe(self) -> str:
        """What the batch reads, in a line for people."""
        count = len(self.files)
        size = sum(file.size for file in self.files) / 1e6
        return f"{count:,} {'file' if count == 1 else 'files'}, {size:,.1f} MB of {self.source}"


class IngestDone(Done):
    """What came of a batch.

    Attributes:
        counts: of this batch.
        totals: of all batches up to this one.
        segments: the index of ids, this batch's among them.
        deferred: files that changed or went while they were read: nothing of them counts, a later run reads them.
    """

    counts: IngestCounts
    totals: IngestCounts
    segments: tuple[Segment, ...] = ()
    deferred: tuple[str, ...] = ()

    def describe(self) -> str:
        """What came of the batch, in a line for people."""
        counts = self.counts
        left = f"; {len(self.deferred):,} files changed while they were read and wait" if self.deferred else ""
        return (
            f"{counts.rows_read:,} rows: {counts.accepted:,} accepted, {counts.quarantined:,} quarantined, "
            f"{counts.duplicates:,} duplicates{left}"
        )
