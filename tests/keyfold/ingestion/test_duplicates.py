"""Copies of events: plain Python, event by event, says which rows stand; and fingerprints are equal where ids are."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold.ingestion import duplicates
from keyfold.ingestion.duplicates import Ids, event_ids, first_equal, kept_at, standing_at
from keyfold.stream import TIMESTAMP, Stream
from tests.examples import examples
from tests.shop import START

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


ALIKE = st.lists(st.tuples(st.integers(0, 30), st.just(1), st.integers(0, 1), st.integers(0, 1)), max_size=60)
"""Events of which many are equal, and some share no hash with another."""


@examples(100)
@given(ALIKE, st.randoms())
def test_rows_that_equal_earlier_ones_are_led_back_to_the_first_in_whatever_order_they_lie(events, random):
    places = list(range(len(events)))
    random.shuffle(places)
    first = first_equal(ids([events[place] for place in places]), np.array(places, np.int64))
    assert [places[at] for at in first] == [events.index(events[place]) for place in places]


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


TYPES = {
    "a": pa.string(),
    "b": pa.string(),
    "number": pa.int64(),
    "share": pa.float64(),
    "is_new": pa.bool_(),
    "names": pa.list_(pa.string()),
    "at": TIMESTAMP,
}
STREAM = Stream("s", pa.schema(list(TYPES.items())), "at", event_id=tuple(TYPES))

TEXT = st.one_of(st.none(), st.sampled_from(["", "N", "T", "1", "\x1f", "1\x1f", "N\x1f1", "1\x1fN", "TN"]), st.text())
ID = st.tuples(
    TEXT,
    TEXT,
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.1, 1e300]), st.floats(allow_nan=False, allow_infinity=False)),
    st.sampled_from([None, True, False]),
    st.one_of(st.none(), st.lists(st.one_of(st.none(), st.sampled_from(["", "a", '","'])), max_size=3)),
    st.integers(-2, 2).map(lambda seconds: START + timedelta(seconds=seconds)),
)


def fingerprints(ids: list[tuple]) -> list[tuple[int, int, int]]:
    table = pa.Table.from_pylist([dict(zip(TYPES, one, strict=True)) for one in ids], STREAM.schema)
    found = event_ids(STREAM, pl.DataFrame(table))
    # All columns are of the id, and so of the content.
    return list(zip(found.first.tolist(), found.second.tolist(), found.content.tolist(), strict=True))


ZERO = ("", "", 1, 0.0, True, [], START)


@examples(300)
@example([ZERO, (*ZERO[:3], -0.0, *ZERO[4:])])
@given(st.lists(ID, min_size=2, max_size=20))
def test_fingerprints_are_equal_where_ids_are(ids):
    found = fingerprints(ids)
    for one, left in zip(found, ids, strict=True):
        for other, right in zip(found, ids, strict=True):
            assert (one == other) == (left == right)


def test_fingerprints_are_those_that_earlier_versions_wrote():
    stream = Stream("s", pa.schema([("ride", pa.string()), ("point", pa.int32()), ("at", TIMESTAMP)]), "at")
    frame = pl.DataFrame({"ride": ["r1", None], "point": [3, None], "at": [START, START]}).with_columns(
        pl.col("point").cast(pl.Int32), pl.col("at").cast(pl.Datetime("us", "UTC"))
    )
    found = event_ids(replace(stream, event_id=("ride", "point")), frame)
    assert found.first.tolist() == [2975212349320273455, 13654679122228792117]
    assert found.second.tolist() == [9291417551807067954, 12889081877736253241]
    assert found.content.tolist() == [10553249144390204909, 13665702578032739518]
