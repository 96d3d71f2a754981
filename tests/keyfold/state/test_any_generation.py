"""Whatever a generation is made of, and however often, its state is what plain Python says, and its job goes on from it."""

from collections import Counter
from datetime import timedelta
from itertools import count

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from keyfold.errors import NotFound
from keyfold.journal.audit import Author
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.execution import generation_sources, operator, writing_state
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.state_parts.part_rows import Sizes
from keyfold.runners import Runners
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.state.changing.moving import move
from keyfold.state.making.seeding import SeedSource, seed_job
from keyfold.state.reading.export import write_state
from keyfold.state.reading.reader import read_state
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import notes, windows
from tests.lake import Lake, minutes
from tests.shop import CLICK

WHY = Author("a test", "to try it")
USERS = st.sampled_from("abcdef")
CLICKS = st.lists(st.tuples(USERS, st.integers(0, 59)), min_size=1, max_size=12)
TINY = Sizes(rows_a_group=1, rows_a_segment=2, inline_bytes=0, small_bytes=0)

CHANGES = st.one_of(
    st.tuples(st.just("run"), CLICKS),
    st.tuples(st.just("edit"), st.lists(USERS, min_size=1, max_size=3), st.integers(0, 9)),
    st.tuples(st.just("remove"), st.lists(USERS, min_size=1, max_size=3)),
    st.tuples(st.just("move"), st.integers(1, 9), st.integers(1, 5)),
    st.tuples(st.just("seed")),
    st.tuples(st.just("refresh")),
)


class Changing:
    """A job of open windows, all of whose state stays open to the end, and which clicks the state should have."""

    def __init__(self, home, runners):
        self.lake, self.runners, self.exports = Lake(home, runners), runners, count()
        self.settings = {"key_groups": 4, "delay": timedelta(days=1), "version": 1, "migrations": {}}
        self.landed, self.state = Counter(), Counter()

    @property
    def job(self):
        return windows(**self.settings)

    def run(self, rows):
        self.lake.click(*rows)
        self.lake.run(self.job)
        clicks = Counter((user, minutes(minute // 10 * 10)) for user, minute in rows)
        self.landed += clicks
        self.state += clicks

    def edit(self, users, more):
        self._edit(users, {"clicks": f"clicks + {more}"})
        self.state = Counter({key: n + more * (key[0] in users) for key, n in self.state.items()})

    def remove(self, users):
        self._edit(users, {})
        self.state = Counter({key: n for key, n in self.state.items() if key[0] not in users})

    def _edit(self, users, corrections):
        edit = Edit(tuple(users), corrections, WHY)
        if not {user for user, _ in self.state}.intersection(users):
            with pytest.raises(NotFound):
                edit_state(self.lake.lakehouse, self.job, edit, yes=True, runners=self.runners)
            return
        edit_state(self.lake.lakehouse, self.job, edit, yes=True, runners=self.runners)

    def move(self, key_groups, partitions):
        version = self.settings["version"]
        migrations = self.settings["migrations"] | {version: lambda rows: rows.reverse()}
        self.settings |= {"key_groups": key_groups, "version": version + 1, "migrations": migrations}
        moved = move(self.lake.lakehouse, self.job, partitions, yes=True, runners=self.runners)
        assert (moved.rows_before, moved.rows) == (len(self.state), len(self.state))
        assert moved.generation.partitions == partitions

    def seed(self):
        to = self.lake.lakehouse.home.parent / f"export-{next(self.exports)}"
        write_state(read_state(self.lake.lakehouse, self.job), to)
        if self.state:
            seed_job(self.lake.lakehouse, self.job, SeedSource(str(to)), yes=True, runners=self.runners)

    def refresh(self):
        self.lake.run(self.job, FullRefresh())
        self.state = Counter(self.landed)

    def check(self):
        rows = read_state(self.lake.lakehouse, self.job).polars()
        assert Counter(
            {(user, window): n for user, window, n in rows.select("user", "window", "clicks").iter_rows()}
        ) == (self.state)
        assert self.lake.done("windows").open_events == self.state.total()
        assert_nothing_lost(self.lake.lakehouse, self.job)
        assert not (self.lake.live("windows").folder / generation_sources.STAGED).exists()

    def end(self):
        self.lake.run(self.job, Incremental(advance_to=minutes(60 * 48)))
        assert self.lake.rows("windows") == sorted((user, window, n) for (user, window), n in self.state.items())
        assert_nothing_lost(self.lake.lakehouse, self.job)


def assert_goes_through(changing, first, changes):
    changing.run(first)
    for name, *arguments in changes:
        getattr(changing, name)(*arguments)
        changing.check()
    changing.end()


@pytest.mark.parametrize("sizes", [None, TINY], ids=["", "tiny parts"])
@examples(100)
@given(first=CLICKS, changes=st.lists(CHANGES, max_size=6))
def test_any_line_of_changes_gives_the_state_of_plain_python(tmp_path_factory, first, changes, sizes):
    with pytest.MonkeyPatch.context() as patch:
        for module in (operator, writing_state) if sizes else ():
            patch.setattr(module, "SIZES", sizes)
        patch.setattr(generation_sources, "ROWS_AT_ONCE", 2 if sizes else generation_sources.ROWS_AT_ONCE)
        assert_goes_through(Changing(tmp_path_factory.mktemp("home") / "home", Runners("local")), first, changes)


def test_each_change_is_the_same_on_spark(spark, tmp_path):
    clicks = [(user, minute) for minute, user in enumerate("abcdefabcdab")]
    changes = [
        ("edit", ["a", "c"], 7),
        ("move", 7, 3),
        ("seed",),
        ("remove", ["b"]),
        ("run", clicks),
        ("edit", ["b"], 1),
        ("refresh",),
        ("move", 2, 5),
    ]
    assert_goes_through(Changing(tmp_path / "home", spark), clicks, changes)


@pytest.mark.parametrize("rows_at_once", [1, 3, 1_000_000])
def test_rows_of_a_key_stay_in_the_order_of_their_table(lake, monkeypatch, tmp_path, rows_at_once):
    monkeypatch.setattr(generation_sources, "ROWS_AT_ONCE", rows_at_once)
    job = notes(key_groups=1)
    lake.click(("ann", 1))
    kept = pl.DataFrame(
        [("ab"[number % 2], minutes(number * 37 % 60), number) for number in range(30)],
        schema=dict(pl.Schema(CLICK)),
        orient="row",
    )
    kept.write_parquet(tmp_path / "rows.parquet")
    source = SeedSource(str(tmp_path / "rows.parquet"), read_from="latest")
    seed_job(lake.lakehouse, job, source, yes=True, runners=lake.session)
    assert_in_the_order_of(kept, read_state(lake.lakehouse, job).polars())
    move(lake.lakehouse, job, 3, yes=True, runners=lake.session)
    assert_in_the_order_of(kept, read_state(lake.lakehouse, job).polars())


def assert_in_the_order_of(table, state):
    for user in "ab":
        assert_frame_equal(state.select(table.columns).filter(user=user), table.filter(user=user))
