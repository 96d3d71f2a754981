"""Copies of events: plain Python, event by event, says which rows stand; any way of splitting them must agree."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.ingestion import duplicates
from keyfold.ingestion.duplicates import Ids, copies_of, copies_within, same_time_copies
from tests.examples import examples

Event = tuple[int, int, int]
"""First hash, second hash, time; hashes of few values, so that they meet, and meet by halves."""

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-30, 30)), max_size=60)
WINDOW = st.sampled_from([0, 1, 3, 7, 100])


def standing(events: list[Event], window: int, before: Sequence[Event] = ()) -> list[bool]:
    """Which events stand, told one after the other."""
    kept, found = list(before), []
    for first, second, time in events:
        stands = not any(
            (first, second) == (other, another) and abs(time - at) <= window for other, another, at in kept
        )
        found.append(stands)
        if stands:
            kept.append((first, second, time))
    return found


def ids(events: list[Event]) -> Ids:
    columns = list(zip(*events, strict=True)) or [(), (), ()]
    return Ids(np.array(columns[0], np.uint64), np.array(columns[1], np.uint64), np.array(columns[2], np.int64))


def index(events: list[Event]) -> Ids:
    found = ids(events)
    return found.take(found.sorted_order())


@examples(300)
@given(EVENTS, EVENTS, WINDOW)
def test_copies_of_history_are_those_near_any_event_of_the_same_id(history, events, window):
    found = copies_of(ids(events), index(history), window)
    expected = [not standing([event], window, history)[0] for event in events]
    assert found.tolist() == expected


@examples(300)
@given(EVENTS, WINDOW, st.randoms())
def test_within_a_batch_the_earlier_one_stands_in_whatever_order_the_rows_lie(events, window, random):
    expected = standing(events, window)
    places = list(range(len(events)))
    random.shuffle(places)
    shuffled = ids([events[place] for place in places])
    found = copies_within(shuffled, np.array(places, np.int64), window)
    assert found.tolist() == [not expected[place] for place in places]


@examples(300)
@given(EVENTS, EVENTS, WINDOW, st.lists(st.integers(0, 60), max_size=4), st.lists(st.integers(0, 60), max_size=4))
def test_any_split_into_batches_and_lanes_keeps_the_same_events(history, events, window, batch_cuts, split_cuts):
    expected = standing(events, window, history)
    kept = np.zeros(len(events), bool)
    known = list(history)
    cuts = sorted({0, *(min(cut, len(events)) for cut in batch_cuts), len(events)})
    for start, end in pairwise(cuts):
        splits = sorted({start, *(cut for cut in split_cuts if start < cut < end), end})
        survivors: list[int] = []
        for begin, stop in pairwise(splits):
            some, order = ids(events[begin:stop]), np.arange(begin, stop)
            copies = copies_of(some, index(known), window) | same_time_copies(some, order)
            survivors += order[~copies].tolist()
        copies = copies_within(ids([events[at] for at in survivors]), np.array(survivors, np.int64), window)
        stood = [at for at, copy in zip(survivors, copies, strict=True) if not copy]
        kept[stood] = True
        known += [events[at] for at in stood]
    assert kept.tolist() == expected


def test_an_id_of_very_many_copies_is_looked_up_and_not_gone_through():
    random = np.random.default_rng(7)
    times = random.integers(0, 10**9, 3_000)
    history = [(5, 1, int(time)) for time in times[:2_000]] + [(5, 2, 17)] * 100
    events = [(5, 1, int(time)) for time in times[2_000:]] + [(5, 2, 18), (5, 3, 17)]
    found = copies_of(ids(events), index(history), 50_000)
    assert found.tolist() == [not standing([event], 50_000, history)[0] for event in events]
    assert 0 < found.sum() < len(found)


def test_an_id_with_many_events_each_just_beyond_the_window_keeps_every_second_one():
    events = [(1, 1, time) for time in range(0, 2_000, 6)]
    found = copies_within(ids(events), np.arange(len(events)), 6)
    assert found.tolist() == [at % 2 == 1 for at in range(len(events))]


def test_a_file_that_is_sent_again_needs_no_loop_over_its_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(duplicates, "_greedy", None)
    random = np.random.default_rng(1)
    rows = 500_000
    once = Ids(
        random.integers(0, 2**63, rows).astype(np.uint64),
        random.integers(0, 2**63, rows).astype(np.uint64),
        random.integers(0, 2**40, rows),
    )
    assert copies_of(once, once.take(once.sorted_order()), 10).all()
    twice = once.take(np.tile(np.arange(rows), 2))
    found = copies_within(twice, np.arange(2 * rows), 10)
    assert not found[:rows].any()
    assert found[rows:].all()
