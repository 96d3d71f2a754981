"""A split: the part of a batch's inputs that one worker reads, and its result.

The result has only names and counts. The files that a worker writes count once the batch's commit record names them.
"""

from dataclasses import dataclass, field
from datetime import datetime

from keyfold.errors import KeyfoldError
from keyfold.ingestion.ingest_records import AdmittedFile, IngestCounts
from keyfold.ingestion.kafka.kafka_settings import PREFIX
from keyfold.ingestion.kafka.offsets import OffsetRange
from keyfold.ingestion.segments import Segment
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.storage.place import Place
from keyfold.stream import Stream


@dataclass(frozen=True)
class TopicAccess:
    """The connection of a worker to a plan's topic. It has no passwords, which are in the worker's environment.

    Attributes:
        name: name of the topic.
        bootstrap: addresses of brokers.
        settings: names of the driver's other settings.
        record_gaps: whether expired messages are recorded; otherwise they are an error.
        is_gone: whether the planned topic was deleted, with all its messages.
        arrived_after: see `TopicShare`.
    """

    name: str
    bootstrap: str
    settings: tuple[str, ...]
    record_gaps: bool
    is_gone: bool = False
    arrived_after: datetime | None = None

    def partition_name(self, partition: int) -> str:
        """Return the name of a partition, used in place of a file's path."""
        return f"{PREFIX}{self.name}/{partition}"


LINES = 1 << 40
"""More rows than an input can have. A row's position in its batch is its input's position times this, plus its line."""


@dataclass(frozen=True)
class Split:
    """The input of a worker, and where its output goes.

    Attributes:
        stream: the stream.
        batch: the batch's number.
        oldest: the oldest event time that is accepted; None if any is.
        arrived: when the files were admitted (UTC).
        events, quarantine: the folders of the tables.
        ids: the folder of the index of event ids.
        segments: the live segments of the index.
        landing: the landing folder, if the split has files.
        topic: how to read the topic, if the split has offsets.
        files: files, each with its position in the batch.
        ranges: ranges of offsets, each with its position in the batch.
        threads: number of threads that parse a file.
    """

    stream: Stream
    batch: int
    oldest: datetime | None
    arrived: datetime
    events: Place
    quarantine: Place
    ids: Place
    segments: tuple[Segment, ...]
    landing: Place
    topic: TopicAccess | None
    files: tuple[tuple[int, AdmittedFile], ...]
    ranges: tuple[tuple[int, OffsetRange], ...]
    threads: int = 1

    @property
    def origins(self) -> dict[int, tuple[str, int]]:
        """The name of each input, and the number of its first line less that of its row's position; by input."""
        files = {at: (str(self.landing / file.path), 0) for at, file in self.files}
        return files | {
            at: (self.topic.partition_name(offsets.partition), offsets.start)
            for at, offsets in self.ranges
            if self.topic
        }


@dataclass(frozen=True)
class WrittenEvents:
    """A data file of events.

    Attributes:
        file: the file.
        segment: the ids of its rows; None if the stream has no event id.
        places: the name of a file with each row's position in the batch and in the data file, in the segment's order; then,
            for each dropped row that equals one of them, its own position in the batch and the other's in the data file.
    """

    file: WrittenFile
    segment: Segment | None = None
    places: str = ""


@dataclass
class SplitResult:
    """The result of a worker.

    Attributes:
        counts: the counts of its rows.
        events, rejects: the files that it wrote.
        deferred: paths of files that changed or were removed while they were read.
        failed: why it did not finish: a disk, or Kafka, failed (OSError; the batch can be repeated), part of the index of event
            ids is damaged (DamagedArrayError), or the batch must not continue for another reason.
    """

    counts: IngestCounts = field(default_factory=IngestCounts)
    events: list[WrittenEvents] = field(default_factory=list)
    rejects: list[WrittenFile] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)
    failed: OSError | KeyfoldError | None = None
