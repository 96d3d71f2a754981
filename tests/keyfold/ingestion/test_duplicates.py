"""Copies of events: plain Python, event by event, says which rows stand; any way of splitting them must agree."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.ingestion import duplicates
from keyfold.ingestion.duplicates import Ids, first_equal, kept_at, standing_at
from tests.examples import examples

Event = tuple[int, int, int, int]
"""First hash, second hash, time, content; hashes of few values, so that they meet, and meet by halves."""

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-30, 30), st.integers(0, 1)), max_size=60)
WINDOW = st.sampled_from([0, 1, 3, 7, 100])


def near(event: Event, others: Sequence[Event], window: int) -> list[Event]:
    return [other for other in others if event[:2] == other[:2] and abs(event[2] - other[2]) <= window]


def standing(events: list[Event], window: int, before: Sequence[Event] = ()) -> list[bool]:
    """Which events stand, told one after the other."""
    kept, found = list(before), []
    for event in events:
        found.append(not near(event, kept, window))
        if found[-1]:
            kept.append(event)
    return found


def ids(events: list[Event]) -> Ids:
    columns = list(zip(*events, strict=True)) or [(), (), (), ()]
    first, second, time, content = columns
    return Ids(
        np.array(first, np.uint64), np.array(second, np.uint64), np.array(time, np.int64), np.array(content, np.uint64)
    )


def index(events: list[Event]) -> Ids:
    found = ids(events)
    return found.take(found.sorted_order())


@examples(300)
@given(EVENTS, EVENTS, WINDOW)
def test_an_event_of_history_is_found_by_its_id_and_one_of_the_same_content_first(history, events, window):
    # Those that stand are farther apart than the window, as in an index.
    history = [event for event, stands in zip(history, standing(history, window), strict=True) if stands]
    known = index(history)
    for event, at in zip(events, standing_at(ids(events), known, window).tolist(), strict=True):
        candidates = near(event, history, window)
        assert (at >= 0) == bool(candidates)
        if at >= 0:
            found = (known.first[at], known.second[at], known.time[at], known.content[at])
            assert found in [other for other in candidates if other[3] == event[3]] or candidates
            assert (found[3] == event[3]) == any(other[3] == event[3] for other in candidates)


@examples(300)
@given(EVENTS, WINDOW, st.randoms())
def test_within_a_batch_the_earlier_one_stands_in_whatever_order_the_rows_lie(events, window, random):
    expected = standing(events, window)
    stood = [event for event, stands in zip(events, expected, strict=True) if stands]
    places = list(range(len(events)))
    random.shuffle(places)
    found = kept_at(ids([events[place] for place in places]), np.array(places, np.int64), window).tolist()
    assert [at < 0 for at in found] == [expected[place] for place in places]
    for place, at in zip(places, found, strict=True):
        if at >= 0:
            event, kept = events[place], events[places[at]]
            candidates = near(event, stood, window)
            assert kept in candidates
            assert places[at] < place
            assert kept[3] == event[3] or all(
                other[3] != event[3] or events.index(other) > place for other in candidates
            )


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
            first = first_equal(some, order)
            assert first.tolist() == [events[begin:stop].index(event) for event in events[begin:stop]]
            copies = (standing_at(some, index(known), window) >= 0) | (first < np.arange(len(some)))
            survivors += order[~copies].tolist()
        copies = kept_at(ids([events[at] for at in survivors]), np.array(survivors, np.int64), window) >= 0
        stood = [at for at, copy in zip(survivors, copies, strict=True) if not copy]
        kept[stood] = True
        known += [events[at] for at in stood]
    assert kept.tolist() == expected


def test_an_id_of_very_many_events_is_looked_up_and_not_gone_through():
    random = np.random.default_rng(7)
    times = random.integers(0, 10**9, 3_000)
    history = [(5, 1, int(time), 0) for time in times[:2_000]] + [(5, 2, 17, 0)] * 100
    events = [(5, 1, int(time), 0) for time in times[2_000:]] + [(5, 2, 18, 0), (5, 3, 17, 0)]
    found = standing_at(ids(events), index(history), 50_000) >= 0
    assert found.tolist() == [not standing([event], 50_000, history)[0] for event in events]
    assert 0 < found.sum() < len(found)


def test_an_id_with_many_events_each_just_beyond_the_window_keeps_every_second_one():
    events = [(1, 1, time, 0) for time in range(0, 2_000, 6)]
    found = kept_at(ids(events), np.arange(len(events)), 6)
    assert (found >= 0).tolist() == [at % 2 == 1 for at in range(len(events))]


def test_a_file_that_is_sent_again_needs_no_loop_over_its_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(duplicates, "bisect_left", None)
    random = np.random.default_rng(1)
    rows = 500_000
    first, second = (random.integers(0, 2**63, rows).astype(np.uint64) for _ in range(2))
    once = Ids(first, second, random.integers(0, 2**40, rows), np.arange(rows, dtype=np.uint64))
    assert (standing_at(once, once.take(once.sorted_order()), 10) >= 0).all()
    twice = once.take(np.tile(np.arange(rows), 2))
    assert (first_equal(twice, np.arange(2 * rows)) == np.tile(np.arange(rows), 2)).all()
    assert (kept_at(once, np.arange(rows), 10) < 0).all()
