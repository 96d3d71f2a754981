"""A partition's state that is played from batch to batch, beside a dictionary."""

from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from keyfold.keyed.calling.slots import SLOT, slots_of
from keyfold.keyed.job.step import DEADLINE
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.state_parts.manifest import NEVER, Manifest
from keyfold.keyed.state_parts.part_rows import Sizes
from keyfold.keyed.state_parts.partition_state import PartitionState
from keyfold.stream import TIMESTAMP
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


def row_groups_read(monkeypatch):
    """The numbers of the row groups that are read from now on."""
    read, groups = [], pq.ParquetFile.read_row_groups

    def counted(file, which, **options):
        read.extend(which)
        return groups(file, which, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    return read
