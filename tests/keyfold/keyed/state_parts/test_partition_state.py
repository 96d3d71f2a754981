"""State in parts against a plain dictionary: any batches, sizes of parts, timers and joins give the same rows."""

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from keyfold.errors import Damaged
from keyfold.keyed.calling.slots import SLOT, slots_of
from keyfold.keyed.job.step import DEADLINE
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.state_parts.manifest import NEVER, Manifest
from keyfold.keyed.state_parts.part_rows import Sizes
from keyfold.keyed.state_parts.partition_state import PartitionState
from keyfold.stream import TIMESTAMP
from tests.damages import cut_short, delete, flip
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.local_state import state_frames

STATE = pa.schema([pa.field("user", pa.string(), nullable=False), ("seen", pa.int64()), (DEADLINE, TIMESTAMP)])
JOB = windows(state=STATE, state_events=pl.len(), key_groups=3)
KINDS = polars_schema(STATE)
# So that a handful of rows makes every kind of part: in the manifest, in a file, of several row groups, of several files.
SIZES = st.sampled_from(
    [
        Sizes(rows_a_group=2, rows_a_segment=4, inline_bytes=0, small_bytes=0),
        Sizes(rows_a_group=1, rows_a_segment=3, inline_bytes=1 << 16, small_bytes=0),
        Sizes(rows_a_group=3, rows_a_segment=1000, inline_bytes=1500, small_bytes=4000),
        Sizes(),
    ]
)
USERS = [f"user-{number}" for number in range(12)]
# What a batch makes of some users: the deadlines of their rows, of which there may be none.
DEADLINES = st.lists(st.integers(0, 40) | st.none(), max_size=3)
BATCH = st.dictionaries(st.sampled_from(USERS), DEADLINES, max_size=8)
# Of these users the rows are added to those that they have.
ADDING = st.sets(st.sampled_from(USERS))
FEW = {user: [None, None, 5] for user in USERS}


def slots(users):
    keys = pl.DataFrame({"user": sorted(users)}, schema={"user": pl.String})
    return np.unique(slots_of(JOB, keys))


def slot_of_each(users):
    keys = pl.DataFrame({"user": list(users)}, schema={"user": pl.String})
    return dict(zip(users, np.asarray(slots_of(JOB, keys)).tolist(), strict=True))


def frame(users, seen, expected):
    """Rows as a step gives them: those of a user behind each other."""
    rows = [(user, seen * 10 + at, deadline) for user in users for at, deadline in enumerate(expected[user])]
    rows = pl.DataFrame(rows, schema={"user": pl.String, "seen": pl.Int64, DEADLINE: pl.Int64}, orient="row")
    return rows.with_columns(pl.col(DEADLINE).cast(KINDS[DEADLINE]))


def rows_by_user(frames):
    found = {}
    for rows in frames:
        for user, seen, deadline in rows.with_columns(pl.col(DEADLINE).to_physical()).select(*KINDS).iter_rows():
            found.setdefault(user, []).append((seen, deadline))
    return found


class Played:
    """A partition that goes from batch to batch, beside a dictionary."""

    def __init__(self, folder, sizes):
        self.folder, self.sizes = folder, sizes
        self.packed: bytes = b""
        self.batch = 0
        self.expected = {}

    def play(self, changes, watermark, adding=frozenset()):
        before = Manifest.unpack(self.packed) if self.packed else Manifest(1)
        state = PartitionState(JOB, self.folder, before, self.batch, self.sizes)
        due = {
            user for user, rows in self.expected.items() if any(at is not None and at <= watermark for _, at in rows)
        }
        assert set(state.due(watermark, 0)) == set(slots(due))
        # A step may leave a row that is due as it is: it is due again in the next batch.
        changes = {**{user: [at for _, at in self.expected[user]] for user in due}, **changes}
        # Rows that are due are never left where they are: the operator sees to it.
        adding = {user for user in changes if user in adding and user not in due}
        needed, slot_of = slots(changes), slot_of_each(changes)
        # In two calls, as a partition of many rows has.
        for part in np.array_split(needed, 2):
            there = set(part.tolist())
            users = [user for user in changes if slot_of[user] in there]
            kept = state.rows(part)
            assert rows_by_user([kept]) == self.rows(users)
            given = frame(users, self.batch, changes)
            given = given.with_columns(pl.Series(SLOT, slots_of(JOB, given), pl.UInt64)).sort(SLOT, maintain_order=True)
            is_added = pl.col("user").is_in(adding)
            replaced = kept.filter(~is_added)
            state.change(replaced, given.filter(~is_added), given.filter(is_added), given.height - replaced.height)
            for user in users:
                new = [(self.batch * 10 + at, deadline) for at, deadline in enumerate(changes[user])]
                self.expected[user] = [*(self.expected.get(user, []) if user in adding else []), *new]
        manifest = state.end()
        self.packed = manifest.pack() if manifest.parts else b""
        self.batch += 1
        return before.files - manifest.files

    def rows(self, users):
        """Of those of some users that have any."""
        return {user: self.expected[user] for user in users if self.expected.get(user)}

    def check(self):
        expected = self.rows(self.expected)
        manifest = Manifest.unpack(self.packed) if self.packed else Manifest(1)
        frames = list(state_frames(manifest, self.folder))
        assert rows_by_user(frames) == expected
        # A frame has all rows of its keys, and frames follow each other by slot.
        assert all(rows[SLOT].is_sorted() for rows in frames)
        spans = [(rows[SLOT][0], rows[SLOT][-1]) for rows in frames if rows.height]
        assert all(before[1] < after[0] for before, after in pairwise(spans))
        assert manifest.open_events == sum(map(len, expected.values()))
        # Never later than the earliest timer, or it would not be seen when it is due.
        timers = [at for rows in expected.values() for _, at in rows if at is not None]
        assert manifest.timers[0] <= min(timers, default=NEVER)


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.tuples(BATCH, st.integers(0, 6), ADDING), max_size=8), sizes=SIZES)
def test_any_batches_give_what_a_dictionary_gives(tmp_path_factory, batches, sizes):
    played, watermark = Played(tmp_path_factory.mktemp("state"), sizes), 0
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
    played = Played(tmp_path_factory.mktemp("state"), sizes)
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


def row_groups_read(monkeypatch):
    """The numbers of the row groups that are read from now on."""
    read, groups = [], pq.ParquetFile.read_row_groups

    def counted(file, which, **options):
        read.extend(which)
        return groups(file, which, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    return read


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
    played = Played(tmp_path_factory.mktemp("state"), Sizes())
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
    folder: Path = tmp_path_factory.mktemp("state")
    rows = frame(sorted(users), 0, FEW)
    rows = rows.with_columns(pl.Series(SLOT, slots_of(JOB, rows), pl.UInt64))
    half = int(np.median(rows[SLOT].to_numpy())) if rows.height else 0
    ranges = [rows.filter(pl.col(SLOT) <= half), rows.filter(pl.col(SLOT) > half)]
    begun = PartitionState(JOB, folder, None, 0, sizes).begin(ranges)
    found = [*state_frames(begun, folder), rows.head(0)]
    assert_frame_equal(pl.concat(found).select(rows.columns).sort("user", "seen"), rows.sort("user", "seen"))
