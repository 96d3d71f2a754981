"""State in parts against a plain dictionary: any batches, sizes of parts, timers and joins give the same rows."""

import shutil

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from keyfold.errors import Damaged
from keyfold.keyed.calling.slots import SLOT, slots_of
from keyfold.keyed.state_parts.manifest import Manifest
from keyfold.keyed.state_parts.part_rows import Sizes
from keyfold.keyed.state_parts.partition_state import PartitionState
from keyfold.storage.disk_path import DiskPath
from tests.damages import cut_short, delete, flip
from tests.examples import examples
from tests.keyfold.keyed.state_parts.played_state import (
    ADDING,
    BATCH,
    JOB,
    SIZES,
    USERS,
    Played,
    frame,
    row_groups_read,
    slots,
)
from tests.keyfold.state.local_state import state_frames

FEW = {user: [None, None, 5] for user in USERS}


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.tuples(BATCH, st.integers(0, 6), ADDING), max_size=8), sizes=SIZES)
def test_any_batches_give_what_a_dictionary_gives(tmp_path_factory, batches, sizes):
    played, watermark = Played(DiskPath(tmp_path_factory.mktemp("state")), sizes), 0
    for changes, later, adding in batches:
        watermark += later
        for name in played.play(changes, watermark, adding):
            # What is dropped is needed no more.
            (played.folder / name).unlink()
        played.check()


@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.tuples(BATCH, ADDING), min_size=1, max_size=6), again=BATCH, sizes=SIZES)
def test_a_batch_that_is_worked_on_again_gives_the_same_whatever_an_attempt_left(
    tmp_path_factory, batches, again, sizes
):
    played = Played(DiskPath(tmp_path_factory.mktemp("state")), sizes)
    for changes, adding in batches:
        packed, batch, expected = played.packed, played.batch, dict(played.expected)
        # An attempt that was cut off: its files lie there, and nothing names them.
        played.play(again, 0, adding)
        played.packed, played.batch, played.expected = packed, batch, expected
        played.play(changes, 0, adding)
        played.check()


def test_what_a_batch_writes_grows_with_what_changed(tmp_path):
    sizes = Sizes(rows_a_group=64, rows_a_segment=4096, inline_bytes=0, small_bytes=0)
    played = Played(tmp_path / "state", sizes)
    everyone = {f"user-{number}": [None] for number in range(20_000)}
    played.play(everyone, 0)
    whole = {path.name for path in played.folder.iterdir()}
    size = sum(path.stat().st_size for path in played.folder.iterdir())
    assert len(whole) > 3
    for number in range(4):
        played.play({f"user-{number}": [None]}, 0)
    written = [path for path in played.folder.iterdir() if path.name not in whole]
    assert sum(path.stat().st_size for path in written) < size / 20
    played.check()


def test_rows_that_are_added_are_written_without_those_that_their_keys_have(tmp_path):
    sizes = Sizes(rows_a_group=64, rows_a_segment=4096, inline_bytes=0, small_bytes=0)
    played = Played(tmp_path / "state", sizes)
    everyone = {f"user-{number}": [None] * 40 for number in range(200)}
    played.play(everyone, 0)
    played.play({user: [None] for user in everyone}, 0, adding=frozenset(everyone))
    manifest = Manifest.unpack(played.packed)
    assert [(part.rows, part.slots) for part in manifest.changes] == [(200, 200)]
    played.check()


def test_few_keys_are_found_without_the_row_groups_of_others(tmp_path, monkeypatch):
    played = Played(tmp_path / "state", Sizes(rows_a_group=16, rows_a_segment=1 << 20, inline_bytes=0, small_bytes=0))
    played.play({f"user-{number}": [None] for number in range(2_000)}, 0)
    read = row_groups_read(monkeypatch)
    state = PartitionState(JOB, played.folder, Manifest.unpack(played.packed), 1)
    assert state.rows(slots(["user-7"]))["user"].to_list() == ["user-7"]
    assert len(read) <= 2


def flip_in_the_footer(path):
    content = bytearray(path.read_bytes())
    # In the slots with which row groups begin: a reader would miss rows without an error.
    content[content.rindex(b"keyfold.starts") + 40] ^= 1
    path.write_bytes(bytes(content))


def replace_by_another(path):
    others = [other for other in path.parent.iterdir() if other != path]
    shutil.copyfile(next(other for other in others if other.stat().st_size == path.stat().st_size), path)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (delete, "it is missing"),
        (cut_short, "bytes and should have"),
        (flip, "a part of the state, cannot be used"),
        (flip_in_the_footer, "the checksum of its footer is another one"),
        (replace_by_another, "the checksum of its footer is another one"),
    ],
)
def test_a_part_that_is_not_what_was_written_is_refused_by_name(tmp_path, damage, why):
    played = Played(tmp_path / "state", Sizes(rows_a_group=512, rows_a_segment=512, inline_bytes=0, small_bytes=0))
    played.play({f"user-{number:05d}": [1] for number in range(1_000)}, 0)
    # A file of the same size, of another attempt.
    again = Played(played.folder, played.sizes)
    again.play({f"user-{number:05d}": [1] for number in range(1_000)}, 0)
    manifest = Manifest.unpack(again.packed)
    path = again.folder / manifest.parts[0].file
    damage(path)
    assert_refused(again, manifest, f"{path.name}.*{why}")


def assert_refused(played, manifest, why):
    with pytest.raises(Damaged, match=why):
        list(state_frames(manifest, played.folder))
    with pytest.raises(Damaged, match=why):
        PartitionState(JOB, played.folder, manifest, 1).rows(slots(["user-00007", "user-00300"]))


@given(data=st.data())
@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_manifest_of_which_any_byte_changed_is_refused(tmp_path_factory, data):
    played = Played(DiskPath(tmp_path_factory.mktemp("state")), Sizes())
    played.play(FEW, 0)
    content = bytearray(played.packed)
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Damaged, match="the manifest of its parts"):
        Manifest.unpack(bytes(content))
    with pytest.raises(Damaged, match="the manifest of its parts"):
        Manifest.unpack(played.packed[: data.draw(st.integers(0, len(content) - 1))])


@examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(users=st.sets(st.sampled_from(USERS)), sizes=SIZES)
def test_a_partition_begins_with_any_rows(tmp_path_factory, users, sizes):
    folder = DiskPath(tmp_path_factory.mktemp("state"))
    rows = frame(sorted(users), 0, FEW)
    rows = rows.with_columns(pl.Series(SLOT, slots_of(JOB, rows), pl.UInt64))
    half = int(np.median(rows[SLOT].to_numpy())) if rows.height else 0
    ranges = [rows.filter(pl.col(SLOT) <= half), rows.filter(pl.col(SLOT) > half)]
    begun = PartitionState(JOB, folder, None, 0, sizes).begin(ranges)
    found = [*state_frames(begun, folder), rows.head(0)]
    assert_frame_equal(pl.concat(found).select(rows.columns).sort("user", "seen"), rows.sort("user", "seen"))
