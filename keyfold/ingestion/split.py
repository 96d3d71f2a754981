"""A split: some of a batch's inputs, for one worker; what it is given and what it gives back.

What it gives back are names and counts. Nothing that it wrote counts before the batch's commit record names it.
"""

from dataclasses import dataclass, field
from datetime import datetime

from keyfold.ingestion.ingest_records import AdmittedFile, IngestCounts
from keyfold.ingestion.segments import Segment
from keyfold.ingestion.sources.kafka.offsets import OffsetRange
from keyfold.ingestion.sources.kafka.settings import PREFIX
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.storage.place import Place
from keyfold.stream import Stream


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
class Output:
    """Where rows of one stream go.

    Attributes:
        stream: whose rows.
        batch: its number in the stream's journal.
        oldest: the least event time that is accepted; None where any is.
        events, quarantine: the tables' folders.
        ids: the folder of the index of ids.
        segments: those of the index that are live.
    """

    stream: Stream
    batch: int
    oldest: datetime | None
    events: Place
    quarantine: Place
    ids: Place
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Split:
    """What a worker is given.

    Attributes:
        streams: all that share the landing, its own first; of one alone no condition is looked at.
        outputs: those of them whose rows are wanted.
        arrived: when the files were admitted (UTC).
        landing: the landing folder, if it reads files.
        topic: how the topic is reached, if it reads one.
        files: with their place in the batch.
        ranges: the same of a topic.
    """

    streams: tuple[Stream, ...]
    outputs: tuple[Output, ...]
    arrived: datetime
    landing: Place
    topic: TopicAccess | None
    files: tuple[tuple[int, AdmittedFile], ...]
    ranges: tuple[tuple[int, OffsetRange], ...]

    @property
    def wanted(self) -> dict[str, datetime | None]:
        """The streams whose rows are wanted, each with the least event time that is accepted."""
        return {one.stream.name: one.oldest for one in self.outputs}


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
class Written:
    """What came of a split, of one stream."""

    counts: IngestCounts = field(default_factory=IngestCounts)
    events: list[WrittenEvents] = field(default_factory=list)
    rejects: list[WrittenFile] = field(default_factory=list)


@dataclass
class SplitResult:
    """What a worker gives back; `fault` is why it could not go on, where that is the disk's fault, or Kafka's.

    `written` is by output. `refused` is why it must not go on, for people; `damaged` is which part of an index of ids is
    damaged.
    """

    written: list[Written] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)
    fault: str = ""
    refused: str = ""
    damaged: str = ""
