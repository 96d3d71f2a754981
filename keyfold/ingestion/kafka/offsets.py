"""Plan the offsets that a run reads: pure functions of a topic's state and of how far it has been read.

Offsets of a partition have gaps: transaction markers, aborted messages, compacted messages. A range counts offsets, not
messages. It has been read once any message or marker reaches its end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from keyfold.errors import Damaged, KeyfoldError
from keyfold.validation import Record

MESSAGE_BYTES = 256
"""Assumed bytes of a message for dividing work, since the broker does not report sizes."""


class OffsetRange(Record):
    """Consecutive offsets of a partition.

    Attributes:
        partition: the partition.
        start, end: the first offset, and the one after the last.
        is_lost: whether its messages expired before they were read, which is recorded in quarantine.
    """

    partition: int
    start: int
    end: int
    is_lost: bool = False

    @property
    def size(self) -> int:
        """Estimated bytes."""
        return 0 if self.is_lost else (self.end - self.start) * MESSAGE_BYTES


class TopicShare(Record):
    """The offsets of a topic that a plan reads.

    Attributes:
        name: name of the topic.
        id: the broker's id of the topic, which changes if it is deleted and created again.
        ranges: the ranges, by partition and in order.
        arrived_after: when the previous plan was made. Arrival times of messages are not set earlier than this.
    """

    name: str
    id: str
    ranges: tuple[OffsetRange, ...]
    arrived_after: datetime | None = None


class ReadTopic(Record):
    """The offsets up to which a topic has been read.

    Attributes:
        id: the broker's id of the topic.
        next: the next offset to read, by partition.
    """

    id: str
    next: dict[int, int]

    def after(self, share: TopicShare) -> "ReadTopic":
        """Return how far the topic has been read after a share."""
        before = self.next if self.id == share.id else {}
        return ReadTopic(id=share.id, next=before | {range_.partition: range_.end for range_ in share.ranges})


@dataclass(frozen=True)
class TopicState:
    """The offsets of a topic, by partition.

    Attributes:
        name, id: as in `TopicShare`.
        first: the earliest offset that has not expired.
        end: the offset after the last one whose transaction has ended.
        begin: where a first run begins.
    """

    name: str
    id: str
    first: Mapping[int, int]
    end: Mapping[int, int]
    begin: Mapping[int, int]


def plan_ranges(
    topic: TopicState, read: ReadTopic | None, *, record_gaps: bool = False, reset: bool = False, remedy: str = ""
) -> list[OffsetRange]:
    """Return the new ranges, by partition. In the first run, all partitions are returned, also with empty ranges.

    Args:
        topic: the state of the topic.
        read: how far it has been read; None in the first run.
        record_gaps: whether messages that expired unread are recorded; otherwise they are an error.
        reset: whether a topic that was replaced by another, or truncated, is read from its beginning.
        remedy: how to start over, for error messages.

    Raises:
        KeyfoldError: unread messages have expired, or the topic was replaced or truncated.
    """
    label = f"topic {topic.name}"
    # Only if it was replaced or truncated, so that leaving the option on does not read the topic again in every run.
    if read is not None and reset and _is_another(topic, read):
        # From the beginning, not from `begin`: nothing of this topic has been read.
        return [OffsetRange(partition=at, start=topic.first[at], end=topic.end[at]) for at in sorted(topic.end)]
    if read is None:
        starts = {at: min(max(topic.begin[at], topic.first[at]), topic.end[at]) for at in sorted(topic.end)}
        return [OffsetRange(partition=at, start=start, end=topic.end[at]) for at, start in starts.items()]
    if read.id != topic.id:
        raise gone_error(topic.name, remedy)
    advice = _advice(remedy)
    if gone := sorted(read.next.keys() - topic.end.keys()):
        raise Damaged(f"{label}: partition {gone[0]}, which was read before, no longer exists. {advice}")
    ranges: list[OffsetRange] = []
    for at in sorted(topic.end):
        # A partition that was added since is read from its beginning.
        start, first, end = read.next.get(at, 0), topic.first[at], topic.end[at]
        if start > end:
            raise Damaged(
                f"{label}: partition {at} was read up to offset {start}, but now ends at {end}: it was truncated (perhaps by "
                f"an unclean leader election or a restored broker). {advice}; copies of events with an id are dropped"
            )
        if start < first:
            if not record_gaps:
                raise lost_error(topic.name, OffsetRange(partition=at, start=start, end=first))
            ranges.append(OffsetRange(partition=at, start=start, end=first, is_lost=True))
            start = first
        if start < end:
            ranges.append(OffsetRange(partition=at, start=start, end=end))
    return ranges


def _is_another(topic: TopicState, read: ReadTopic) -> bool:
    return read.id != topic.id or any(start > topic.end.get(at, -1) for at, start in read.next.items())


def gone_error(topic: str, remedy: str) -> KeyfoldError:
    """Return the error for a topic that was replaced by another of the same name."""
    return KeyfoldError(
        f"topic {topic} is not the one that was read before: it was deleted and created again, or this is another cluster, so "
        f"the recorded offsets do not apply. {_advice(remedy)}"
    )


def _advice(remedy: str) -> str:
    return f"`--reset-topic` (in Dagster: reset_topic) reads it from its beginning as a new topic; or {remedy}"


def lost_error(topic: str, lost: OffsetRange) -> KeyfoldError:
    """Return the error for messages that expired unread."""
    return KeyfoldError(
        f"topic {topic}: offsets {lost.start} to {lost.end - 1} of partition {lost.partition} were deleted before they were "
        "read (retention is shorter than the time between runs). To continue without them: `--on-gap record` (in Dagster: "
        "on_gap), which records the gap in quarantine"
    )


def unread(topic: TopicState, read: ReadTopic | None) -> int:
    """Return the lag: the number of unread offsets. All of a topic with another id are unread."""
    # A partition that is not known yet counts from where a run would begin to read it.
    next_offsets = read.next if read is not None and read.id == topic.id else {}
    fallback = topic.begin if read is None else topic.first
    return sum(
        max(0, end - max(next_offsets.get(at, fallback[at] if not next_offsets else 0), topic.first[at]))
        for at, end in topic.end.items()
    )


def cut_batches(ranges: Sequence[OffsetRange], most: int) -> list[list[OffsetRange]]:
    """Cut ranges into batches of about `most` offsets. Each batch has the same share of every range.

    Reading one partition after the other would advance event time far ahead of the other partitions, whose events would then
    be late for jobs that run meanwhile.
    """
    if not ranges:
        return []
    total = sum(range_.end - range_.start for range_ in ranges if not range_.is_lost)
    count = max(1, -(-total // most))
    batches: list[list[OffsetRange]] = [[] for _ in range(count)]
    for range_ in ranges:
        if range_.is_lost or range_.start == range_.end:
            batches[0].append(range_)
            continue
        length = range_.end - range_.start
        for at in range(count):
            start, end = range_.start + length * at // count, range_.start + length * (at + 1) // count
            if start < end:
                batches[at].append(range_.model_copy(update={"start": start, "end": end}))
    return [batch for batch in batches if batch]


def cut_pieces(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """Cut ranges, in order, so that consecutive pieces form `count` equal parts."""
    total = sum(range_.end - range_.start for range_ in ranges if not range_.is_lost)
    if total == 0:
        return list(ranges)
    # The boundaries of equal parts, counted in offsets over all ranges; a range is cut where a boundary is inside it.
    cuts = [total * at // count for at in range(1, count)]
    pieces: list[OffsetRange] = []
    offsets_before = 0
    for range_ in ranges:
        if range_.is_lost:
            pieces.append(range_)
            continue
        length = range_.end - range_.start
        inside = sorted(
            {range_.start + cut - offsets_before for cut in cuts if offsets_before < cut < offsets_before + length}
        )
        bounds = [range_.start, *inside, range_.end]
        pieces += [range_.model_copy(update={"start": a, "end": b}) for a, b in pairwise(bounds)]
        offsets_before += length
    return pieces
