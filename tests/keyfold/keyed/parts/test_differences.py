"""Two states of a partition by the parts that they do not share, against plain dictionaries."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.keyed.parts import differences as parts_differences
from keyfold.keyed.parts.differences import differences
from keyfold.keyed.parts.manifest import Manifest
from keyfold.keyed.parts.part_rows import Sizes
from tests.examples import examples
from tests.keyfold.keyed.parts.test_partition_state import ADDING, BATCH, SIZES, Played, row_groups_read, rows_by_user


def compared(before, after, played):
    was, now, equal = {}, {}, 0
    for found in differences(before, after, played.folder, ["user"], count=True):
        was |= rows_by_user([found.before] if found.before.width else [])
        now |= rows_by_user([found.after] if found.after.width else [])
        equal += found.equal_keys
    return was, now, equal


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.tuples(BATCH, ADDING), min_size=1, max_size=8), sizes=SIZES, data=st.data())
def test_any_two_batches_differ_as_dictionaries_do(tmp_path_factory, batches, sizes, data):
    played, states = Played(tmp_path_factory.mktemp("state"), sizes), [(Manifest(1), {})]
    for changes, adding in batches:
        played.play(changes, 0, adding)
        manifest = Manifest.unpack(played.packed) if played.packed else Manifest(1)
        states.append((manifest, played.rows(played.expected)))
    (one, before), (other, after) = data.draw(st.sampled_from(states)), data.draw(st.sampled_from(states))
    with pytest.MonkeyPatch.context() as patched:
        # Equal keys are counted in two ways; the one for few changes must hold for any number of them.
        patched.setattr(parts_differences, "_FEW", data.draw(st.sampled_from([1, 8])))
        was, now, equal = compared(one, other, played)
    # A key that is shown has all of its rows; one that is not is the same in both.
    assert all(before[user] == rows for user, rows in was.items())
    assert all(after[user] == rows for user, rows in now.items())
    hidden = {user for user in before if user not in was}
    assert hidden == {user for user in after if user not in now}
    assert all(before[user] == after[user] for user in hidden)
    assert equal == len(hidden)


def test_of_neighbouring_batches_only_the_parts_that_differ_are_read(tmp_path, monkeypatch):
    played = Played(tmp_path, Sizes(rows_a_group=16, rows_a_segment=1 << 20, inline_bytes=0, small_bytes=0))
    played.play({f"user-{number}": [None] for number in range(2_000)}, 0)
    before = Manifest.unpack(played.packed)
    played.play({"user-7": [1]}, 0)
    after = Manifest.unpack(played.packed)
    read = row_groups_read(monkeypatch)
    (found,) = differences(before, after, played.folder, ["user"], count=False)
    assert (found.before["user"].to_list(), found.after["user"].to_list()) == (["user-7"], ["user-7"])
    assert len(read) <= 6
    del read[:]
    assert list(differences(after, after, played.folder, ["user"], count=False)) == []
    assert read == []
    # The manifest knows how many keys the base has; read is what the one change replaces.
    assert sum(one.equal_keys for one in differences(after, after, played.folder, ["user"], count=True)) == 2_000
    assert len(read) <= 4
