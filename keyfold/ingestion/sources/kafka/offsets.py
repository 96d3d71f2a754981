"""Which offsets a run reads: pure functions of what a topic holds and of what was read of it.

Offsets of a partition have holes: markers of transactions, aborted messages, what compaction took away. A range counts
offsets and not messages, and is read when its end is reached, by whichever message or marker.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from pydantic import BaseModel, ConfigDict

from keyfold.errors import Damaged, KeyfoldError

MESSAGE_BYTES = 256
"""What an offset is taken to weigh where work is shared out: only the broker knows, and it does not say."""


class OffsetRange(BaseModel):
    """Consecutive offsets of a partition.

    Attributes:
        partition: which.
        start, end: the first one, and the one after the last.
        is_lost: whether its messages were gone before they were read; quarantine says so in their place.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: int
    start: int
    end: int
    is_lost: bool = False

    @property
    def size(self) -> int:
        """About how many bytes."""
        return 0 if self.is_lost else (self.end - self.start) * MESSAGE_BYTES


class TopicShare(BaseModel):
    """What a plan reads of a topic.

    Attributes:
        name: the topic's.
        id: the broker's own for it; one that is deleted and made anew has another.
        ranges: by partition, each partition's in order.
        arrived_after: when the plan before was made: no message arrived earlier, as jobs on arrival time see it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    id: str
    ranges: tuple[OffsetRange, ...]
    arrived_after: datetime | None = None


class ReadTopic(BaseModel):
    """How far a topic was read.

    Attributes:
        id: of the topic.
        next: by partition the first offset that was not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    next: dict[int, int]

    def after(self, share: TopicShare) -> "ReadTopic":
        """How far it is read with a share more."""
        before = self.next if self.id == share.id else {}
        return ReadTopic(id=share.id, next=before | {one.partition: one.end for one in share.ranges})


def read_by_all(reads: Iterable[ReadTopic | None]) -> ReadTopic | None:
    """How far all of those who read a topic have read it; None where one has not begun, or read another topic of its name."""
    found = list(reads)
    there = [one for one in found if one is not None]
    if len(there) < len(found) or len({one.id for one in there}) > 1:
        return None
    return ReadTopic(id=there[0].id, next={at: min(one.next.get(at, 0) for one in there) for at in there[0].next})


@dataclass(frozen=True)
class TopicState:
    """What a topic holds.

    Attributes:
        name, id: as of `TopicShare`.
        first: by partition the earliest offset that is still there.
        end: by partition the one after the last whose transaction has ended.
        begin: by partition where a run begins that has read nothing yet.
    """

    name: str
    id: str
    first: Mapping[int, int]
    end: Mapping[int, int]
    begin: Mapping[int, int]


def plan_ranges(
    topic: TopicState, read: ReadTopic | None, *, record_gaps: bool = False, anew: bool = False, remedy: str = ""
) -> list[OffsetRange]:
    """The ranges that are new, by partition; on the first look all partitions, of empty ranges too.

    Args:
        topic: what there is.
        read: how far it was read, None before the first look.
        record_gaps: whether messages that were lost before they were read are recorded; else they are an error.
        anew: whether a topic that is not the one that was read, or ends before that, is read from its beginning.
        remedy: how to start over, for errors.

    Raises:
        KeyfoldError: messages were lost; or the topic is not the one that was read, or ends before where it was read to.
    """
    where = f"topic {topic.name}"
    # Only where it is another one: who leaves the option on must not read the topic again with every run.
    if read is not None and anew and _is_another(topic, read):
        # From its beginning, whatever a first look would begin with: nothing of this topic was read yet.
        return [OffsetRange(partition=at, start=topic.first[at], end=topic.end[at]) for at in sorted(topic.end)]
    if read is None:
        starts = {at: min(max(topic.begin[at], topic.first[at]), topic.end[at]) for at in sorted(topic.end)}
        return [OffsetRange(partition=at, start=start, end=topic.end[at]) for at, start in starts.items()]
    if read.id != topic.id:
        raise gone_error(topic.name, remedy)
    advice = _advice(remedy)
    if gone := sorted(read.next.keys() - topic.end.keys()):
        raise Damaged(f"{where}: partition {gone[0]} was read, and is not there any more. {advice}")
    ranges: list[OffsetRange] = []
    for at in sorted(topic.end):
        # A partition that has appeared since: all of it is new.
        start, first, end = read.next.get(at, 0), topic.first[at], topic.end[at]
        if start > end:
            raise Damaged(
                f"{where}: partition {at} was read up to offset {start}, and ends at {end}: its end was cut off (a leader "
                f"that lagged behind, a restored broker). {advice}; where events have an id, copies are dropped"
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
    """What to say of a topic that is not the one that was read."""
    return KeyfoldError(
        f"topic {topic} is not the one that was read, though it has its name: it was deleted and made anew, or this is "
        f"another cluster; offsets of the one say nothing of the other. {_advice(remedy)}"
    )


def _advice(remedy: str) -> str:
    return f"`--topic-anew` (in Dagster: topic_anew) reads it from its beginning as another one; or {remedy}"


def lost_error(topic: str, lost: OffsetRange) -> KeyfoldError:
    """What to say of messages that were lost before they were read."""
    return KeyfoldError(
        f"topic {topic}: offsets {lost.start} to {lost.end - 1} of partition {lost.partition} were deleted before they were "
        "read (retention is shorter than the time between runs). To go on without them: `--on-gap record` (in Dagster: "
        "on_gap), which writes the gap to quarantine"
    )


def unread(topic: TopicState, read: ReadTopic | None) -> int:
    """The lag: how many offsets are new, of a topic of the same id or of another."""
    known = read.next if read is not None and read.id == topic.id else {}
    fallback = topic.begin if read is None else topic.first
    return sum(
        max(0, end - max(known.get(at, fallback[at] if not known else 0), topic.first[at]))
        for at, end in topic.end.items()
    )


def cut_batches(ranges: Sequence[OffsetRange], most: int) -> list[list[OffsetRange]]:
    """Batches of about `most` offsets: each takes the same part of every range, so that partitions go on side by side.

    One partition after the other would let the time of the first run far ahead of the others', whose events were late
    then for a job that runs meanwhile.
    """
    if not ranges:
        return []
    total = sum(one.end - one.start for one in ranges if not one.is_lost)
    count = max(1, -(-total // most))
    batches: list[list[OffsetRange]] = [[] for _ in range(count)]
    for one in ranges:
        if one.is_lost or one.start == one.end:
            batches[0].append(one)
            continue
        length = one.end - one.start
        for at in range(count):
            start, end = one.start + length * at // count, one.start + length * (at + 1) // count
            if start < end:
                batches[at].append(one.model_copy(update={"start": start, "end": end}))
    return [batch for batch in batches if batch]


def cut_pieces(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """The same offsets in the same order, cut so that they make `count` equal parts of consecutive pieces."""
    total = sum(one.end - one.start for one in ranges if not one.is_lost)
    if total == 0:
        return list(ranges)
    cuts = [total * at // count for at in range(1, count)]
    pieces: list[OffsetRange] = []
    done = 0
    for one in ranges:
        if one.is_lost:
            pieces.append(one)
            continue
        length = one.end - one.start
        inside = sorted({one.start + cut - done for cut in cuts if done < cut < done + length})
        bounds = [one.start, *inside, one.end]
        pieces += [one.model_copy(update={"start": a, "end": b}) for a, b in pairwise(bounds)]
        done += length
    return pieces
