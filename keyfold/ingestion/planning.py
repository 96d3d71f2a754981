"""Plan batches of bounded size from new files of a folder, or new offsets of a topic."""

from collections.abc import Sequence
from datetime import datetime

from keyfold.ingestion.ingest_records import AdmittedFile, IngestPlan
from keyfold.ingestion.known import IngestJournal
from keyfold.ingestion.sources.kafka.offsets import MESSAGE_BYTES, TopicShare, TopicState, cut_batches, plan_ranges
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_state

MAX_BYTES_PER_BATCH = 512 << 20
MAX_FILES_PER_BATCH = 10_000
"""Bounds the size of a plan, which names each file."""


def plan_batches(
    journal: IngestJournal,
    source: str,
    parts: Sequence[Sequence[AdmittedFile] | TopicShare],
    oldest: datetime | None = None,
    *,
    now: datetime,
    conditions: str = "",
) -> list[IngestPlan]:
    """Make the plans of batches, and write them to the journal.

    Args:
        source: the landing folder or topic.
        parts: the inputs of each batch.
        oldest: the oldest event time that the batches accept; None if any.
        now: when their inputs were admitted (UTC).
        conditions: the conditions of the streams that share the source.
    """
    last = journal.last_done()
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
            conditions=conditions,
        )
        for at, part in enumerate(parts)
    ]
    if plans:
        journal.write_plans(plans)
    return plans


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


def new_offsets(
    journals: Sequence[IngestJournal], topic: KafkaTopic, max_bytes: int, remedies: Sequence[str]
) -> list[list[TopicShare]]:
    """Return the new offsets of a topic for each stream that reads it, batch by batch. Kafka is asked once.

    Raises:
        KeyfoldError: Kafka does not answer, the topic was replaced by another, or unread messages have expired.
    """
    state = topic_state(topic)
    return [
        _shares(journal, topic, state, max_bytes, remedy) for journal, remedy in zip(journals, remedies, strict=True)
    ]


def _shares(
    journal: IngestJournal, topic: KafkaTopic, state: TopicState, max_bytes: int, remedy: str
) -> list[TopicShare]:
    last = journal.last_done()
    before = journal.plan(last.batch) if last else None
    read = last.topics.get(topic.source) if last else None
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


def cut_new_files(news: Sequence[Sequence[AdmittedFile]], max_bytes: int) -> list[list[list[AdmittedFile]]]:
    """Cut the new files of each stream that reads a folder into parts. Files that are new to the same streams share parts.

    Files that are new to the fewest streams come first: those that only a newly added stream has to read.
    """
    # Invert: from the new files of each stream to the streams of each file, and group files by their streams.
    readers: dict[AdmittedFile, list[int]] = {}
    for at, files in enumerate(news):
        for file in files:
            readers.setdefault(file, []).append(at)
    by_readers: dict[tuple[int, ...], list[AdmittedFile]] = {}
    for file in sorted(readers, key=lambda file: file.path):
        by_readers.setdefault(tuple(readers[file]), []).append(file)
    cuts: list[list[list[AdmittedFile]]] = [[] for _ in news]
    for those in sorted(by_readers, key=lambda those: (len(those), those)):
        for part in cut_files(by_readers[those], max_bytes):
            for at in those:
                cuts[at].append(part)
    return cuts


def in_step(queues: Sequence[Sequence[IngestPlan]]) -> list[list[int]]:
    """Group the streams' plans into steps: each step is the positions of the streams whose next plans have the same inputs.

    Plans with the same inputs share a step wherever their order allows it. Plans of a killed run may not allow it.

    Example:
        >>> in_step([[], []])
        []
    """
    left = [list(queue) for queue in queues]
    steps: list[list[int]] = []
    while any(left):
        heads = [(at, queue[0]) for at, queue in enumerate(left) if queue]
        together = [[at for at, other in heads if _are_alike(plan, other)] for _, plan in heads]
        # Wait if a stream has a plan with these inputs later in its queue.
        ready = [
            those
            for those, (_, plan) in zip(together, heads, strict=True)
            if len(those) == len(heads) or not any(_are_alike(plan, other) for queue in left for other in queue[1:])
        ]
        # If no step is ready, the order of the plans does not allow sharing: take the first anyway.
        steps.append((ready or together)[0])
        for at in steps[-1]:
            left[at].pop(0)
    return steps


def _are_alike(plan: IngestPlan, other: IngestPlan) -> bool:
    parts = ("planned_at", "source", "topic", "files")
    return all(getattr(plan, part) == getattr(other, part) for part in parts)
