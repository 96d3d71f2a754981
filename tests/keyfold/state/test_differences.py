"""Changed keys are counted as plain Python counts them, and parts that two states share are not read."""

import math

import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_rows import Sizes
from keyfold.state.differences import Difference, rows_of_unshared_parts
from keyfold.storage.disk_path import DiskPath
from tests.examples import examples
from tests.keyfold.keyed.state_parts.played_state import ADDING, BATCH, SIZES, Played, row_groups_read, rows_by_user

SCHEMA = {"user": pl.String, "day": pl.Date, "change": pl.Int64, "amount": pl.Float64}
VALUES = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, math.inf]))
ROWS = st.lists(st.tuples(st.sampled_from(["ann", "bob", None]), VALUES), max_size=8)


def counts(before, after, key, columns):
    """The number of keys added, removed and changed, and of the latter by column that differs."""
    difference = Difference("before", "after", key, columns, (), pa.schema([]), lambda: iter([(before, after)]))
    found = difference.summary()
    return (found.added, found.removed, found.changed), found.columns


def in_order(rows):
    """The rows of each key as Spark sorts an array of them: NULL first, NaN last, and one zero."""

    def place(value):
        return (0, 0) if value is None else (2, 0) if math.isnan(value) else (1, value + 0.0)

    by_key = {}
    for user, values in rows:
        by_key.setdefault(user, []).append(tuple(map(place, values)))
    return {user: sorted(found) for user, found in by_key.items()}


@examples(200)
@given(before=ROWS, after=ROWS)
def test_keys_and_columns_that_differ_are_counted_whatever_the_order_of_rows(before, after):
    left, right = (
        pl.DataFrame([(user, None, *values) for user, values in rows], SCHEMA, orient="row") for rows in (before, after)
    )
    was, now = in_order(before), in_order(after)
    both = was.keys() & now.keys()
    changed = {user for user in both if was[user] != now[user]}
    of_columns = {
        name: sum([row[n] for row in was[user]] != [row[n] for row in now[user]] for user in changed)
        for n, name in enumerate(("change", "amount"))
    }
    assert counts(left, right, ("user", "day"), ("change", "amount")) == (
        (len(now.keys() - was.keys()), len(was.keys() - now.keys()), len(changed)),
        {name: count for name, count in of_columns.items() if count},
    )


def test_rows_of_keys_alone_are_counted():
    before, after = pl.DataFrame({"user": ["ann", "bob"]}), pl.DataFrame({"user": ["ann", "ann", "bob"]})
    assert counts(before, after, ("user",), ()) == ((0, 0, 1), {})


def test_rows_with_lists_and_structs_have_no_order_either():
    rows = pl.DataFrame({"user": ["ann"] * 2, "at": [[1], [2, None]], "of": [{"x": [1.5]}, {"x": None}]})
    other = rows.with_columns(at=pl.col("at").list.reverse())
    assert counts(rows, rows.reverse(), ("user",), ("at", "of")) == ((0, 0, 0), {})
    assert counts(rows, other, ("user",), ("at", "of")) == ((0, 0, 1), {"at": 1})


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.tuples(BATCH, ADDING), min_size=1, max_size=8), sizes=SIZES, data=st.data())
def test_any_two_batches_differ_as_dictionaries_do(tmp_path_factory, batches, sizes, data):
    played, states = Played(DiskPath(tmp_path_factory.mktemp("state")), sizes), [(Manifest(1), {})]
    for changes, adding in batches:
        played.play(changes, 0, adding)
        manifest = Manifest.unpack(played.packed) if played.packed else Manifest(1)
        states.append((manifest, played.rows(played.expected)))
    (one, before), (other, after) = data.draw(st.sampled_from(states)), data.draw(st.sampled_from(states))
    was, now = {}, {}
    for rows in rows_of_unshared_parts(one, other, played.folder):
        old, new = (rows_by_user([] if side is None else [side]) for side in rows)
        was, now = was | old, now | new
    # A key that is shown has all of its rows; one that is not is the same in both.
    assert all(before[user] == rows for user, rows in was.items())
    assert all(after[user] == rows for user, rows in now.items())
    assert {user: before[user] for user in before if user not in was} == {
        user: after[user] for user in after if user not in now
    }


def test_of_neighbouring_batches_only_the_parts_that_differ_are_read(tmp_path, monkeypatch):
    played = Played(tmp_path, Sizes(rows_a_group=16, rows_a_segment=1 << 20, inline_bytes=0, small_bytes=0))
    played.play({f"user-{number}": [None] for number in range(2_000)}, 0)
    before = Manifest.unpack(played.packed)
    played.play({"user-7": [1]}, 0)
    after = Manifest.unpack(played.packed)
    read = row_groups_read(monkeypatch)
    ((was, now),) = rows_of_unshared_parts(before, after, played.folder)
    assert [None if one is None else one["user"].to_list() for one in (was, now)] == [["user-7"], ["user-7"]]
    assert len(read) <= 6
    del read[:]
    assert list(rows_of_unshared_parts(after, after, played.folder)) == []
    assert read == []
