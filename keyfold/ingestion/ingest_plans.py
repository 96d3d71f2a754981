"""Plan batches of bounded size from new files of a folder, or new offsets of a topic; and how old their events may be.

The age of a stream's events (`max_age`) is measured from the newest event time that earlier runs accepted. It is read once, when
a run is planned, and recorded in the plans. So the order of files, batch boundaries and crashes do not affect which events are
too old. The first run, and a rebuild, accept events of any age.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from keyfold.ingestion.ingest_records import AdmittedFile, IngestDone, IngestPlan
from keyfold.ingestion.kafka.offsets import MESSAGE_BYTES, TopicShare, cut_batches, plan_ranges
from keyfold.ingestion.kafka.topic import KafkaTopic, topic_state
from keyfold.ingestion.known import IngestJournal
from keyfold.lakehouse.data_files import WrittenFile
from keyfold.lakehouse.log_changes import newest_time, snapshot
from keyfold.storage.place import Place
from keyfold.stream import Stream
from keyfold.times import from_iso, shifted

MAX_BYTES_PER_BATCH = 512 << 20
MAX_FILES_PER_BATCH = 10_000
"""Bounds the size of a plan, which names each file."""


def plan_batches(
    journal: IngestJournal,
    source: str,
    parts: Sequence[Sequence[AdmittedFile] | TopicShare],
    oldest: datetime | None = None,
) -> None:
    """Make the plans of batches, and write them to the journal.

    Args:
        source: the landing folder or topic.
        parts: the inputs of each batch.
        oldest: the oldest event time that the batches accept; None if any.
    """
    last, now = journal.last_done(), datetime.now(UTC)
    first = last.batch + 1 if last else 0
    plans = [
        IngestPlan(
            batch=first + at,
            run=first,
            batches=len(parts),
            planned_at=now,
            source=source,
            files=() if isinstance(part, TopicShare) else tuple(part),
            topic=part if isinstance(part, TopicShare) else None,
            oldest=oldest,
        )
        for at, part in enumerate(parts)
    ]
    if plans:
        journal.write_plans(plans)


def cut_files(files: Sequence[AdmittedFile], max_bytes: int) -> list[list[AdmittedFile]]:
    """Cut files into consecutive parts of at most `max_bytes`, or of a single file."""
    parts: list[list[AdmittedFile]] = []
    size = 0
    for file in files:
        if not parts or size + file.size > max_bytes or len(parts[-1]) == MAX_FILES_PER_BATCH:
            parts.append([])
            size = 0
        parts[-1].append(file)
        size += file.size
    return parts


def new_offsets(journal: IngestJournal, topic: KafkaTopic, max_bytes: int, remedy: str) -> list[TopicShare]:
    """Return the new offsets of a topic, batch by batch.

    Raises:
        KeyfoldError: Kafka does not answer, the topic was replaced by another, or unread messages have expired.
    """
    state, last = topic_state(topic), journal.last_done()
    before = journal.plan(last.batch) if last else None
    read = last.topics.get(topic.source) if last else None
    ranges = plan_ranges(state, read, record_gaps=topic.on_gap == "record", reset=topic.reset, remedy=remedy)
    return [
        TopicShare(
            name=topic.name,
            id=state.id,
            ranges=tuple(batch),
            arrived_after=before.planned_at if before else None,
        )
        for batch in cut_batches(ranges, max(1, max_bytes // MESSAGE_BYTES))
    ]


def oldest_accepted(stream: Stream, events: Place, last: IngestDone | None) -> datetime | None:
    """Return the oldest event time that a run planned now accepts; None if it accepts any.

    Args:
        events: its event table.
        last: the newest commit record.
    """
    newest = _newest(stream, events, last)
    return None if stream.max_age is None or newest is None else shifted(newest, -stream.max_age)


def ids_since(stream: Stream, oldest: datetime | None) -> datetime | None:
    """Return the oldest event time whose ids are needed to find all copies among accepted events; None if all are needed."""
    return None if oldest is None else shifted(oldest, -stream.duplicate_window)


def newest_after(
    stream: Stream, events: Place, before: IngestDone | None, files: Sequence[WrittenFile]
) -> datetime | None:
    """Return the newest event time up to and including a batch's files; None if the stream has no `max_age`."""
    times = [from_iso(file.last[stream.event_time]) for file in files if stream.event_time in file.last]
    newest = _newest(stream, events, before)
    return None if stream.max_age is None else max([*times, *([newest] if newest else [])], default=None)


def _newest(stream: Stream, events: Place, last: IngestDone | None) -> datetime | None:
    if stream.max_age is None or last is None or last.newest is not None:
        return last.newest if last else None
    # The stream had no `max_age` when that record was written.
    files = snapshot(events, stream.event_time).files
    times = [newest_time(events, file, stream.event_time) for file in files]
    return max((time for time in times if time is not None), default=None)
