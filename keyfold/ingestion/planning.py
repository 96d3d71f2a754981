"""Cuts what is new into batches of a bounded size, and plans them: files of a folder, or offsets of a topic."""

from collections.abc import Sequence
from datetime import UTC, datetime

from keyfold.ingestion.known import IngestJournal
from keyfold.ingestion.records import AdmittedFile, IngestPlan
from keyfold.ingestion.sources.kafka.offsets import MESSAGE_BYTES, TopicShare, cut_batches, plan_ranges
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_state

MAX_BYTES_PER_BATCH = 512 << 20
MAX_FILES_PER_BATCH = 10_000
"""A plan names each file: this bounds the record."""


def plan_batches(
    journal: IngestJournal,
    source: str,
    parts: Sequence[Sequence[AdmittedFile] | TopicShare],
    oldest: datetime | None = None,
) -> list[IngestPlan]:
    """Plan batches of consecutive files or of offsets, and write the plans.

    Args:
        journal: where the plans are written.
        source: what is read.
        parts: what each batch reads of it.
        oldest: the least event time that they accept; None where any is.
    """
    last = journal.last_done()
    first, now = last.batch + 1 if last else 0, datetime.now(UTC)
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
    return plans


def cut_files(files: Sequence[AdmittedFile], max_bytes: int) -> list[list[AdmittedFile]]:
    """Consecutive files, each part of a bounded size, or of one file."""
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
    """What is new in a topic, batch by batch.

    Raises:
        KeyfoldError: Kafka does not answer, the topic is not the one that was read, or it has lost messages.
    """
    last = journal.last_done()
    before = journal.plan(last.batch) if last else None
    read = last.topics.get(topic.source) if last else None
    state = topic_state(topic)
    ranges = plan_ranges(state, read, record_gaps=topic.on_gap == "record", anew=topic.anew, remedy=remedy)
    return [
        TopicShare(
            name=topic.name,
            id=state.id,
            ranges=tuple(batch),
            arrived_after=before.planned_at if before else None,
        )
        for batch in cut_batches(ranges, max(1, max_bytes // MESSAGE_BYTES))
    ]
