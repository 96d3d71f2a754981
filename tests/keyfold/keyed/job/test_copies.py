"""Events that belong to several keys: each copy reaches its key's state once, and none is lost. Without Spark but where counted."""

from collections import Counter
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.conservation import Conservation, check_conservation
from keyfold.keyed.generation.continuing import check_generation
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import Step
from keyfold.keyed.job_run import RunOptions
from keyfold.operators import count, totals
from keyfold.state.making.seeding import SeedSource, seed_job
from keyfold.state.reading.reader import read_state
from keyfold.stream import TIMESTAMP, Stream
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import job_of
from tests.shop import START

TAG = pa.field("tag", pa.string(), nullable=False)
POST = {"user": pl.String, "at": pl.Datetime("us", "UTC"), "tags": pl.List(pl.String)}
OF_TAG = pa.schema([TAG, ("at", TIMESTAMP), ("posts", pa.int64())])
OPEN_TAG = pa.schema([TAG, ("posts", pa.int64()), ("deadline", TIMESTAMP)])
TAGGED = pa.schema([("tag", pa.string()), ("posts", pa.int64())])
UNTAGGED = "(none)"
# A tag that is silent for ten minutes is over, but for `a`, which is over at once.
FINAL = pl.col("at") + pl.when(pl.col("tag") == "a").then(timedelta(0)).otherwise(timedelta(minutes=10))
FILE_BY_FILE = RunOptions(max_bytes_per_batch=1)


def step(state, events, clock) -> Step:
    """Posts of a tag until it has been silent for ten minutes."""
    came = events.group_by("tag").agg(
        pl.col("posts").sum(), (pl.col("at").max() + timedelta(minutes=10)).alias("deadline")
    )
    merged = pl.concat([state, came]).group_by("tag").agg(pl.col("posts").sum(), pl.col("deadline").max())
    is_over = pl.col("deadline") <= clock.watermark
    return Step(state=merged.filter(~is_over), output=merged.filter(is_over).drop("deadline"))


def joined(events: pl.DataFrame) -> pl.DataFrame:
    return events.group_by("tag").agg(pl.col("at").max(), pl.col("posts").sum())


POSTS = Stream("posts", POST, event_time="at").derive(posts=pl.lit(1, pl.Int64))
ONE = pl.col("tags")


def tags(values: pl.Expr = ONE, otherwise: str | None = UNTAGGED, **changes) -> KeyedJob:
    settings = {
        "name": "tags",
        "stream": POSTS.explode("tag", values, otherwise),
        "key": "tag",
        "delay": "5m",
        "final_at": FINAL,
        "columns": OF_TAG,
        "state": OPEN_TAG,
        "output": TAGGED,
        "step": step,
        "event_count": pl.col("posts").sum(),
        "key_groups": 4,
        "output_events": pl.col("posts").sum(),
        "state_events": pl.col("posts").sum(),
    }
    return job_of(**{**settings, **changes})


def posts(*rows) -> pl.DataFrame:
    """Posts of (minutes after START, tags)."""
    return pl.DataFrame(
        {
            "user": ["ann"] * len(rows),
            "at": [START + timedelta(minutes=minutes) for minutes, _ in rows],
            "tags": [told for _, told in rows],
        },
        schema=POST,
    )


@pytest.fixture
def land(lake):
    """Put posts into the event table, one file a call."""
    return lambda *rows: lake.put(posts(*rows), "posts")


def test_an_event_may_be_late_for_one_of_its_keys_and_not_for_another(lake, land, minutes):
    land((0, ["a"]), (30, ["b"]))
    lake.run(tags())
    assert lake.rows("tags") == [("a", 1)]
    land((21, ["a", "b"]))
    lake.run(tags(), Incremental(advance_to=minutes(60)))
    assert lake.rows("tags") == [("a", 1), ("b", 2)]
    assert lake.rows("late.tags") == [("a", minutes(21), 1)]


def test_where_no_key_may_be_missing_an_event_without_one_is_refused_with_what_to_say(lake, land):
    job = tags(otherwise=None)
    land((0, ["a"]), (1, []))
    with pytest.raises(KeyfoldError, match=r"without a value in tag, .* key of an event without a tag \(`otherwise`\)"):
        lake.run(job)


def test_what_is_no_column_of_the_key_or_is_derived_already_is_refused():
    with pytest.raises(KeyfoldError, match="explode is of at; it must be of a column of the key, tag"):
        tags(stream=POSTS.explode("at", ONE))
    for declare in (
        lambda: POSTS.explode("posts", ONE),
        lambda: POSTS.explode("tag", ONE).derive(tag=pl.lit("a")),
        lambda: POSTS.explode("tag", ONE).explode("at", ONE),
    ):
        with pytest.raises(KeyfoldError, match=r"input posts: (explode|derive): .* is made already"):
            declare()
    for declare in (
        lambda: POSTS.where(pl.col("posts") > 1),
        lambda: POSTS.derive(more=pl.col("posts") + 1),
        lambda: POSTS.explode("tags").where(pl.col("tags") == "a"),
    ):
        with pytest.raises(KeyfoldError, match=r"input posts: .* names (posts|tags), which is made of stored columns"):
            declare()


def test_a_list_may_be_exploded_under_its_own_name_and_repeated_conditions_must_all_hold(lake, minutes):
    awake = POSTS.where(ONE.list.len() > 0).explode("tags").where(pl.col("user") == "ann").where(pl.col("at") > START)
    job = totals("tags", awake, {"posts": count()}, key="tags")
    came = posts((0, ["a"]), (1, ["a", "b"]), (2, []), (3, None), (4, ["b", "b"]), (5, ["c"]))
    came = came.with_columns(user=pl.Series(["ann"] * 5 + ["bob"]))
    lake.put(came, "posts")
    lake.run(job)
    assert lake.rows("tags") == [("a", 1), ("b", 2)]
    harness = TestHarness(job)
    harness.batch(came)
    assert sorted(harness.written["tags"].rows()) == [("a", 1), ("b", 2)]


def test_other_keys_need_a_new_generation(lake, land):
    land((0, ["a"]))
    lake.run(tags())
    live = lake.live("tags")
    check_generation(live, tags())
    for other in (tags(otherwise="none"), tags(ONE.list.head(1))):
        with pytest.raises(KeyfoldError, match=r"input posts: explode.*--full-refresh"):
            lake.run(other)
    lake.run(tags(otherwise="none"), FullRefresh())


LISTS = st.none() | st.lists(st.sampled_from(["a", "b", "c", None]), max_size=4)


@examples(200)
@given(st.lists(LISTS, max_size=20), st.sampled_from([None, UNTAGGED]))
def test_copies_are_those_of_plain_python_and_are_counted_without_making_any(lists, otherwise):
    events, keys_of = posts(*enumerate(lists)), POSTS.explode("tag", ONE, otherwise).exploded
    assert keys_of is not None
    expected = Counter(
        (number, key)
        for number, told in enumerate(lists)
        for key in ({one for one in told or [] if one} or {otherwise})
    )
    copies = keys_of.copies_of(events)
    at = [(row["at"] - START) // timedelta(minutes=1) for row in copies.iter_rows(named=True)]
    assert Counter(zip(at, copies["tag"].to_list(), strict=True)) == expected
    assert events.select(keys_of.number.sum()).item() == sum(key is not None for _, key in expected)


def test_state_is_read_and_seeded_and_what_it_begins_behind_is_counted_in_copies(
    lake, lakehouse, land, tmp_path, minutes
):
    land((0, ["a", "b"]), (1, ["b"]))
    lake.run(tags())
    state = read_state(lakehouse, tags()).polars()
    assert sorted(state.select("tag", "posts").rows()) == [("a", 1), ("b", 2)]
    state.write_parquet(tmp_path / "state.parquet")
    land((2, ["c", "a"]), (3, []))
    told = seed_job(lakehouse, tags(), SeedSource(str(tmp_path / "state.parquet")), yes=True, runners=lake.session)
    origin = lake.live("tags").origin
    assert origin is not None
    assert (origin.events_skipped, origin.events_seeded, told.new_rows) == (3, 3, 3)


def test_copies_are_conserved_and_a_lost_one_shows(lake, lakehouse, land, minutes):
    job = tags(combine=joined)
    land((0, ["a", "b"]), (1, ["b", "b", None]))
    land((2, []), (40, ["c", "d", "e"]))
    lake.run(job, options=FILE_BY_FILE)
    assert lake.rows("tags") == [(UNTAGGED, 1), ("a", 1), ("b", 2)]
    land((3, ["a", "e"]))
    lake.run(job)
    assert lake.rows("late.tags") == [("a", minutes(3), 1), ("e", minutes(3), 1)]
    # Not read yet: the job knows nothing of it.
    land((50, ["a", "b", "c", "d"]))
    assert check_conservation(lakehouse, job) == Conservation(9, 4, 3, 2, 9, rows_read=5)
    blind = tags(ONE.list.head(1), combine=joined)
    assert not check_conservation(lakehouse, blind).balanced
