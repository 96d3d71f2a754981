"""Planning of offsets, played against a topic that grows, loses messages and gets partitions: plain sets are the oracle."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.ingestion.kafka import topic as topics
from keyfold.ingestion.kafka.offsets import (
    OffsetRange,
    ReadTopic,
    TopicShare,
    TopicState,
    cut_batches,
    cut_pieces,
    plan_ranges,
    unread,
)
from tests.examples import examples


def topic(first: Sequence[int], end: Sequence[int], begin: Sequence[int] | None = None, identity: str = "a"):
    pairs = [dict(enumerate(values)) for values in (first, end, begin if begin is not None else first)]
    return TopicState("t", identity, *pairs)


def offsets(ranges: Sequence[OffsetRange], *, lost: bool = False) -> list[tuple[int, int]]:
    return [(one.partition, at) for one in ranges if one.is_lost == lost for at in range(one.start, one.end)]


def share(ranges: Sequence[OffsetRange], identity: str = "a") -> TopicShare:
    return TopicShare(name="t", id=identity, ranges=tuple(ranges))


RANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 30), st.booleans()), max_size=6).map(
    lambda rows: [
        OffsetRange(partition=at, start=start, end=start + length, is_lost=lost) for at, start, length, lost in rows
    ]
)


@given(RANGES, st.integers(1, 40))
def test_batches_hold_every_offset_once_in_order_and_no_more_than_they_may(ranges, most):
    batches = cut_batches(ranges, most)
    for lost in (False, True):
        told = [one for batch in batches for one in offsets(batch, lost=lost)]
        assert sorted(told) == sorted(offsets(ranges, lost=lost))
    for number in range(len(ranges)):
        # Each range is cut where the one before ended, from batch to batch.
        single = [offsets(batch) for batch in cut_batches([ranges[number]], most)]
        assert [one for part in single for one in part] == offsets([ranges[number]])
    assert all(len(offsets(batch)) <= most + len(ranges) for batch in batches)


@given(RANGES, st.integers(1, 9))
def test_pieces_hold_every_offset_in_order_in_parts_of_about_one_size(ranges, count):
    pieces = cut_pieces(ranges, count)
    for lost in (False, True):
        assert offsets(pieces, lost=lost) == offsets(ranges, lost=lost)
    total = len(offsets(ranges))
    assert all(len(offsets([piece])) <= -(-total // count) for piece in pieces)


CHANGE = st.tuples(
    st.sampled_from(["write", "write", "delete", "partition", "read"]), st.integers(0, 3), st.integers(0, 9)
)


@examples(300)
@given(st.lists(CHANGE, max_size=30), st.integers(1, 20))
def test_whatever_a_topic_goes_through_each_message_is_read_once_or_told_to_be_lost(changes, most):
    first, end = [0], [0]
    read: ReadTopic | None = None
    taken: list[tuple[int, int]] = []
    lost: list[tuple[int, int]] = []
    before_first_look: set[tuple[int, int]] = set()
    for what, somewhere, number in [*changes, ("read", 0, 0)]:
        at = somewhere % len(end)
        if what == "write":
            end[at] += number
        elif what == "delete":
            first[at] = min(end[at], first[at] + number)
        elif what == "partition":
            first.append(0)
            end.append(0)
        else:
            state = topic(first, end)
            expected = unread(state, read)
            ranges = plan_ranges(state, read, record_gaps=True)
            assert len(offsets(ranges)) == expected
            if read is None:
                before_first_look = {(p, o) for p, start in enumerate(first) for o in range(start)}
                read = ReadTopic(id="a", next={})
            for batch in cut_batches(ranges, most):
                taken += offsets(batch)
                lost += offsets(batch, lost=True)
                read = read.after(share(batch))
            assert plan_ranges(state, read) == []
    everything = {(p, o) for p, stop in enumerate(end) for o in range(stop)}
    assert len(taken) == len(set(taken))
    assert len(lost) == len(set(lost))
    assert set(taken).isdisjoint(lost)
    assert set(taken) | set(lost) | before_first_look == everything


def test_messages_that_are_gone_are_an_error_that_says_how_to_go_on():
    with pytest.raises(KeyfoldError, match=r"offsets 5 to 7 of partition 0 were deleted .* `--on-gap record`"):
        plan_ranges(topic([8], [20]), ReadTopic(id="a", next={0: 5}))


def test_a_topic_made_anew_is_refused_and_read_from_its_beginning_when_that_is_asked_for():
    read, now = ReadTopic(id="old", next={0: 5, 1: 9}), topic([0], [3], identity="new")
    with pytest.raises(KeyfoldError, match=r"not the one that was read.*`--reset-topic`.*or rebuild it"):
        plan_ranges(now, read, remedy="rebuild it")
    ranges = plan_ranges(now, read, reset=True)
    assert offsets(ranges) == [(0, 0), (0, 1), (0, 2)]
    after = read.after(share(ranges, "new"))
    assert after == ReadTopic(id="new", next={0: 3})
    assert plan_ranges(now, after, reset=True) == []


def test_an_end_that_was_cut_off_is_refused():
    read = ReadTopic(id="a", next={0: 5})
    with pytest.raises(KeyfoldError, match=r"read up to offset 5, but now ends at 4"):
        plan_ranges(topic([0], [4]), read)
    assert offsets(plan_ranges(topic([2], [4]), read, reset=True)) == [(0, 2), (0, 3)]
    with pytest.raises(KeyfoldError, match=r"partition 3, which was read before, no longer exists"):
        plan_ranges(topic([0], [9]), ReadTopic(id="a", next={0: 5, 3: 1}))


@pytest.mark.parametrize(
    ("start", "asked"),
    [
        # As a float it is the next second; a negative number may be a code: -1 is the newest.
        (datetime(8199, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 196599830399999),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), 0),
    ],
)
def test_a_time_to_begin_at_is_asked_for_to_the_millisecond(monkeypatch, start, asked):
    class Cluster:
        def describe(self, topic):
            return "id", [0]

        def offsets(self, topic, there, spec):
            return {0: getattr(spec, "timestamp", 0)}

    monkeypatch.setattr(topics, "_cluster", lambda settings: Cluster())
    wanted = topics.KafkaTopic("t", start=start, settings=topics.KafkaSettings("127.0.0.1:9092", {}))
    assert topics.topic_state(wanted).begin == {0: asked}
