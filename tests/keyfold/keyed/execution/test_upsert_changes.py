"""An upsert table as an input: what each batch made of each key, once, however batches are cut and wherever a run dies."""

from collections import Counter
from dataclasses import replace
from itertools import count

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold import Input, KeyedJob, Misconfigured, Step
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.execution import commit
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.state import State
from keyfold.keyed.job.tables import Upsert
from keyfold.lakehouse import fail_points
from keyfold.lakehouse.reading import scan_table
from keyfold.state.changing.moving import move
from keyfold.stream import TIMESTAMP
from tests.chained_jobs import Chain
from tests.examples import examples
from tests.shop import CLICK, CLICKS, USER

LEVEL = pa.field("level", pa.string(), nullable=False)
TOTAL = pa.schema([USER, pa.field("clicks", pa.int64()), LEVEL])
USERS = pa.schema([LEVEL, pa.field("users", pa.int64())])


def level_of(clicks):
    return f"level {clicks // 3}"


def total(state, events, clock):
    """Clicks of each user so far, and the user's level: one for every three."""
    new = events.group_by("user").agg(clicks=pl.len().cast(pl.Int64))
    known = pl.concat([state.select("user", "clicks"), new]).group_by("user").agg(pl.col("clicks").sum())
    known = known.with_columns(level=pl.format("level {}", pl.col("clicks") // 3))
    return Step(state=known, output=known)


TOTALS = KeyedJob(
    "totals",
    Input(CLICKS, columns=CLICK, delay="5m", final_at=STEP_DECIDES),
    "user",
    State(TOTAL, events=pl.col("clicks").sum()),
    total,
    Upsert(TOTAL, "user", events=pl.lit(0), changes=True),
    key_groups=2,
)
CHANGED = TOTALS.changes()


def move_users(state, events, clock):
    """How many users are at each level: each change takes a user to one, and from another."""
    came = [
        events["to"].group_by("level").agg(users=pl.len().cast(pl.Int64)),
        events["away"].group_by("level").agg(users=-pl.len().cast(pl.Int64)),
    ]
    known = pl.concat([state, *came]).group_by("level").agg(pl.col("users").sum())
    return Step(state=known, output=known)


AT = CHANGED.schema.field("changed_at")
TO = Input(CHANGED, "changed_at", columns=pa.schema([LEVEL, AT]), final_at=STEP_DECIDES, conserved=False)
LEVELS = KeyedJob(
    "levels",
    {"to": TO, "away": replace(TO, source=CHANGED.derive(level=pl.col("level_before").fill_null("none")))},
    "level",
    State(USERS, events=pl.lit(0)),
    move_users,
    Upsert(USERS, "level", events=pl.lit(0)),
    key_groups=2,
)
POINTS = [
    point
    for point in fail_points.POINTS
    if point.startswith(("work: after", "changes", "state", "done: after", "commit"))
]
CHANGE = ("user", "clicks_before", "clicks", "is_new")


def changes(site):
    rows = scan_table(site.lakehouse.table("changes.totals")).sort("change", "user").collect()
    return [sorted(part.select(CHANGE).rows()) for _, part in rows.group_by("change", maintain_order=True)]


def levels(site):
    rows = scan_table(site.lakehouse.table("levels")).collect().rows()
    return {level: users for level, users in rows if users and level != "none"}


def by_definition(deliveries):
    """Changes of each delivery, and how many users there are at each level in the end."""
    totals, expected = Counter(), []
    for users in deliveries:
        came = Counter(users)
        expected.append(
            sorted((user, totals[user] or None, totals[user] + count, not totals[user]) for user, count in came.items())
        )
        totals += came
    return expected, dict(Counter(level_of(clicks) for clicks in totals.values()))


DELIVERIES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["ann", "bob", "cat", "dan"]), min_size=1, max_size=5),
        st.sampled_from([None, *POINTS]),
        st.sampled_from([None, "skipped", *POINTS]),
    ),
    min_size=1,
    max_size=4,
)


@examples(20, shrinks=False, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DELIVERIES)
def test_changes_are_written_once_and_what_is_made_of_them_is_the_same_however_runs_are_cut(
    tmp_path_factory, cut_power, monkeypatch, deliveries
):
    # A batch's files are compared with the table in groups, here of one file.
    monkeypatch.setattr(commit, "_ROWS_A_FILE", 1)
    site = Chain(tmp_path_factory.mktemp("home"))
    minutes = count()
    for users, of_producer, of_consumer in deliveries:
        # Some are behind the watermark: totals are never closed.
        site.click(*((user, 2 * at - 7 * (at % 2)) for user, at in zip(users, minutes, strict=False)))
        run(site, cut_power, TOTALS, of_producer)
        if of_consumer != "skipped":
            run(site, cut_power, LEVELS, of_consumer)
    site.run(LEVELS)
    expected, at_levels = by_definition([users for users, *_ in deliveries])
    assert changes(site) == expected
    assert levels(site) == at_levels
    written = sum(map(len, expected))
    found = assert_nothing_lost(site.lakehouse, LEVELS)
    assert found.by_input == found.by_producer == dict.fromkeys(("to", "away"), (written, written))
    assert scan_table(site.lakehouse.table("late.levels")).collect().is_empty()


def run(site, cut_power, job, point):
    if point:
        cut_power(point, lambda: site.run(job))
    site.run(job)


def test_a_row_that_is_written_again_as_it_was_is_no_change(tmp_path):
    same = replace(TOTALS, step=lambda state, events, clock: always(events))
    site = Chain(tmp_path)
    for at in range(3):
        site.click(("ann", at))
        site.run(same)
    assert changes(site) == [[("ann", None, 1, True)]]
    site.run(LEVELS)
    assert levels(site) == {"level 0": 1}


def always(events):
    one = events.select("user").unique().with_columns(clicks=pl.lit(1, pl.Int64), level=pl.lit("level 0"))
    return Step(state=one, output=one)


def test_changes_go_on_after_the_state_was_moved(tmp_path):
    site = Chain(tmp_path)
    site.click(("ann", 0))
    site.run(TOTALS)
    moved = replace(TOTALS, key_groups=9)
    move(site.lakehouse, moved, yes=True, runners=site.spark)
    site.click(("ann", 1))
    site.run(moved)
    rows = scan_table(site.lakehouse.table("changes.totals")).sort("clicks").collect()
    assert rows.select(CHANGE).rows() == [("ann", None, 1, True), ("ann", 1, 2, False)]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (TOTALS.table, r"totals is updated in place.*KeyedJob\.changes"),
        (lambda: replace(TOTALS, tables=Upsert(TOTAL, "user")).changes(), "keeps no changes of it: totals"),
        (lambda: TOTALS.changes("sums"), "has no such table: sums"),
        (
            lambda: Upsert(TOTAL.append(pa.field("change", TIMESTAMP)), "user", name="twice", changes=True),
            "two columns change; rename its own",
        ),
    ],
)
def test_changes_that_cannot_be_are_refused_where_they_are_declared(make, reason):
    with pytest.raises(Misconfigured, match=reason):
        make()
