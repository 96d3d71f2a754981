"""A job with other aggregates goes on from the state that it has: what is new is NULL, or what it would have been, and never a part of it."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from keyfold import Input, KeyedJob, Stream, TestHarness, required
from keyfold import operators as op
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.parameters import WindowShape
from keyfold.state.changing.aggregate_changes import aggregate_changes
from keyfold.state.changing.history import filled
from keyfold.state.changing.migrating import changes_to, migrate
from keyfold.storage.disk_path import DiskPath
from keyfold.times import BEGINNING
from tests.examples import examples
from tests.keyfold.keyed.generation.declared_space import record_of
from tests.shop import HOUR, MINUTE, NOON

TIME, PAID, KM = pl.Datetime("us", "UTC"), pl.col("paid"), pl.col("km")
RIDES = Input(
    Stream(
        "rides",
        [
            required("user", pl.String, "Who"),
            required("at", TIME, "When"),
            ("paid", pl.Int64),
            ("km", pl.Float64),
            ("tags", pl.List(pl.String)),
        ],
        event_time="at",
    ),
    delay="7m",
)
ANY_ORDER = {
    "dear": op.count(PAID > 5),
    "sum": op.sum("paid"),
    "far": op.sum("km"),
    "least": op.min("paid"),
    "most": op.max("km"),
    "mean": op.mean("km"),
    "mean_paid": op.mean("paid"),
    "first_paid": op.first("paid"),
    "last_km": op.last("km"),
    "last_paid": op.last("paid"),
    "different": op.count_distinct("paid"),
    "all_paid": op.collect("paid"),
    "every_tag": op.distinct("tags"),
}
QUANTILE = {"median": op.quantile("km", 0.5)}
OF_PAIRS = {"climb": op.over_pairs(PAID - PAID.shift()), "falls": op.sum_of_decreases("paid")}
NUMBER, START = {"n": op.count()}, {"n": op.count(), "since": op.first("at")}
KEY: Any = {"key": "user"}
JOBS = {
    "windows": (lambda of: op.windows("w", RIDES, of, length="10m", **KEY), NUMBER, ANY_ORDER | QUANTILE, "window_start"),
    "windows that overlap": (
        lambda of: op.windows("w", RIDES, of, length="20m", every="5m", **KEY), NUMBER, ANY_ORDER | QUANTILE, "window_start",
    ),
    "windows that are corrected": (
        lambda of: op.windows("w", RIDES, of, length="10m", lateness=op.Lateness(allowed="9m"), **KEY),
        NUMBER, ANY_ORDER | QUANTILE, "window_start",
    ),
    "windows while open": (
        lambda of: op.windows("w", RIDES, of, length="10m", lateness=op.Lateness(while_open=True), **KEY),
        NUMBER, ANY_ORDER | QUANTILE, "window_start",
    ),
    "top": (
        lambda of: op.windows("w", RIDES, of, length="10m", by="user", top=op.Top(n=5, highest="n")),
        NUMBER, ANY_ORDER | QUANTILE, "window_start",
    ),
    "sessions": (lambda of: op.sessions("w", RIDES, of, gap="6m", **KEY), NUMBER, ANY_ORDER | QUANTILE, "window_start"),
    "sessions until": (
        lambda of: op.sessions("w", RIDES, of, gap="6m", until=op.Until(PAID > 8, closed_for="1m"), **KEY),
        START, ANY_ORDER | QUANTILE | OF_PAIRS, "since",
    ),
    "sessions while": (
        lambda of: op.sessions("w", RIDES, of, gap="6m", while_=op.While(PAID > 2, pause="4m"), **KEY),
        START, ANY_ORDER | QUANTILE | OF_PAIRS, "since",
    ),
    "last_n": (lambda of: op.last_n("w", RIDES, of | {"at": op.last("at")}, n=3, from_n=1, gap="20m", **KEY), NUMBER, ANY_ORDER | QUANTILE | OF_PAIRS, "at"),
    "running in windows": (
        lambda of: op.running("w", RIDES, of, window=WindowShape(10 * MINUTE, 10 * MINUTE), **KEY), NUMBER, ANY_ORDER, "at",
    ),
    "totals": (lambda of: op.totals("w", RIDES, of, **KEY), NUMBER, ANY_ORDER, ""),
    "running": (lambda of: op.running("w", RIDES, of, **KEY), NUMBER, ANY_ORDER, "at"),
}  # fmt: skip
"""By name: a job of aggregates, those that it always has, those that it may have, and the column by which a key's rows are told apart."""

_COUNT_ON = ("totals", "running")
_FIRST_OF_ALL = ("first_paid",)


def rides(*events):
    rows = [(user, NOON + minute * MINUTE, paid, km, tags) for user, minute, paid, km, tags in events]
    kinds = {"user": pl.String, "at": TIME, "paid": pl.Int64, "km": pl.Float64, "tags": pl.List(pl.String)}
    return pl.DataFrame(rows, schema=kinds, orient="row")


@st.composite
def deliveries(draw):
    """Rides at different minutes, in deliveries that are out of order."""
    minutes = draw(st.lists(st.integers(0, 60), unique=True, min_size=2, max_size=24))
    ride = st.tuples(
        st.sampled_from("ab"),
        st.none() | st.integers(-3, 12),
        st.none() | st.sampled_from([0.1, 2.5, -1e20, 3e-7]),
        st.none() | st.lists(st.sampled_from("xyz"), max_size=2),
    )
    whole = [(user, minute, paid, km, tags) for minute, (user, paid, km, tags) in ((at, draw(ride)) for at in minutes)]
    whole.sort(key=lambda event: event[1] + draw(st.integers(-9, 9)))
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), min_size=1, max_size=3)))
    return [rides(*whole[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def generation_of(job: KeyedJob) -> Generation:
    return Generation(DiskPath("no-such-generation"), record_of(job))


def migrated(before: KeyedJob, after: KeyedJob, state: pl.DataFrame) -> pl.DataFrame:
    return migrate(after, generation_of(before))(state)


def played(job: KeyedJob, frames, state=None, since=BEGINNING):
    """The harness after deliveries; what it has written by then is forgotten if it goes on from a state."""
    harness = TestHarness(job)
    if state is not None:
        harness.state, harness.watermark = state, since
    for frame in frames:
        harness.batch(frame)
    return harness


@pytest.mark.parametrize("name", [name for name in JOBS if name not in (*_COUNT_ON, "last_n")])
def test_what_was_open_has_null_in_all_that_is_new(name):
    make, always, possible, _ = JOBS[name]
    old, new = make(always), make(always | possible)
    stopped = played(old, [rides(("a", 0, 4, 1.0, ["x"]), ("a", 1, 5, 2.0, ["y"]), ("b", 9, 4, 1.0, []))])
    state = migrated(old, new, stopped.state)
    moved = played(new, [rides(("a", 4, 6, 3.0, ["z"]))], state, stopped.watermark)
    moved.batch(advance_to=NOON + 9 * HOUR)
    rows = moved.written["w"].filter(user="a")
    assert rows["n"].max() == 3
    assert new.state.aggregates is not None
    partial = [aggregate for aggregate in possible if new.state.aggregates.parts[aggregate]]
    assert len(partial) >= len(possible) - 2
    assert rows.select(partial).null_count().row(0) == (rows.height,) * len(partial)


@pytest.mark.parametrize("name", JOBS)
@examples(40, shrinks=False)
@given(deliveries(), st.data())
def test_history_gives_all_of_it(name, frames, data):
    make, always, possible, _ = JOBS[name]
    # In one order, so that no ride is late: a replay has the same rows of state then.
    frames = list(pl.concat(frames).sort("at").iter_slices(5))
    some: Any = st.sets(st.sampled_from(sorted(possible)))
    before, after = (
        always | {aggregate: possible[aggregate] for aggregate in sorted(data.draw(some))} for _ in range(2)
    )
    old, new = make(before), make(after)
    moved_at = data.draw(st.integers(0, len(frames)))
    stopped, replay = played(old, frames[:moved_at]), played(new, frames[:moved_at])
    changes = aggregate_changes(new, record_of(old))
    assert changes is not None
    state = filled(changes, migrated(old, new, stopped.state), replay.state)
    assert_frame_equal(state, replay.state, check_row_order=False)


def same(value: pl.Expr, other: pl.Expr) -> pl.Expr:
    return value.eq_missing(other)


@pytest.mark.parametrize("name", JOBS)
@examples(60, shrinks=False)
@given(deliveries(), st.data())
def test_what_is_new_is_null_or_what_it_would_have_been(name, frames, data):
    make, always, possible, told_by = JOBS[name]
    some: Any = st.sets(st.sampled_from(sorted(possible)))
    before, after = (
        always | {aggregate: possible[aggregate] for aggregate in sorted(data.draw(some))} for _ in range(2)
    )
    old, new = make(before), make(after)
    moved_at = data.draw(st.integers(0, len(frames)))
    stopped = played(old, frames[:moved_at])
    state = migrated(old, new, stopped.state)
    assert state.columns == new.state.schema.names
    moved = played(new, frames[moved_at:], state, stopped.watermark)
    assert new.state.aggregates is not None
    # Of all events, and of those that came since, or that state has as they are.
    whole, since = (
        played(new, frames),
        played(new, frames[moved_at:], state.filter(~new.state.aggregates.rows), stopped.watermark),
    )
    for harness in (moved, whole, since):
        harness.batch(advance_to=NOON + 9 * HOUR)
    keys = ["user", told_by] if told_by else ["user"]
    for table, rows in moved.written.items():
        if table.startswith("late.") or told_by not in ("", *rows.columns):
            continue
        ids = [key for key in keys if key in rows.columns]
        known = {aggregate for aggregate in after if aggregate in before}
        both = rows.join(whole.written[table], on=ids, suffix=" whole").join(
            since.written[table], on=ids, how="left", suffix=" since"
        )
        assert both.height == rows.height
        is_whole = same(pl.col("n since"), pl.col("n whole"))
        for aggregate in after:
            if aggregate not in rows.columns or aggregate in ids:
                continue
            got, expected = pl.col(aggregate), pl.col(f"{aggregate} whole")
            # The last value of rows in order is a column of the last event, which state has.
            if aggregate not in known and new.state.aggregates.parts[aggregate]:
                if name in _COUNT_ON:
                    is_known = is_whole if aggregate in _FIRST_OF_ALL else pl.lit(value=True)
                    expected = pl.when(is_known).then(pl.col(f"{aggregate} since"))
                else:
                    expected = pl.when(is_whole).then(expected)
            wrong = both.filter(~same(got, expected))
            shown = wrong.select(
                *ids, got.alias("got"), expected.alias("expected"), pl.col("n").alias("n got"), "n whole", "n since"
            )
            assert wrong.is_empty(), (table, aggregate, shown.rows())


@pytest.mark.parametrize("name", JOBS)
def test_each_aggregate_that_is_new_or_gone_is_a_move_and_one_of_another_meaning_a_refresh(name):
    make, always, possible, _ = JOBS[name]
    for aggregate, function in possible.items():
        without, having = make(always), make(always | {aggregate: function})
        assert verdict(without, having) == verdict(having, without) == "move"
        other = op.max("paid") if function.kind != "max" else op.min("paid")
        assert verdict(having, make(always | {aggregate: other})) == "refresh"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # What counts events is in every row.
        ({}, NUMBER, "refresh"),
        (NUMBER, {}, "refresh"),
        (NUMBER, {"n": op.count(PAID > 3)}, "refresh"),
        (NUMBER, {"other": op.count()}, "refresh"),
        # Another one beside it is one more.
        (NUMBER, NUMBER | {"other": op.count()}, "move"),
    ],
)
@pytest.mark.parametrize("name", ["windows", "sessions", "totals"])
def test_an_aggregate_that_counts_the_events_is_a_refresh(name, before, after, expected):
    make, most = JOBS[name][0], {"most": op.max("km")}
    before, after = make(most | before), make(most | after)
    assert verdict(before, after) == expected
    # The author's change says it, and not only what follows from it.
    settings = changes_to(after, generation_of(before)).settings
    assert expected in {change.verdict for change in settings}


def test_the_first_count_leaves_the_number_of_events_where_it_was_if_that_is_said():
    def job(of, **counted):
        return op.windows("w", RIDES, of, length="10m", **KEY, **counted)

    most = {"most": op.max("km")}
    assert verdict(job(most), job(most | NUMBER, counted="n_events")) == "move"
    assert verdict(job(most | NUMBER), job(most | NUMBER, counted="n")) == "move"
    assert verdict(job(most | NUMBER), job(most | NUMBER, counted="n_events")) == "refresh"


@pytest.mark.parametrize("told_apart", ["since", "n"])
def test_sessions_in_order_need_the_count_and_the_start_that_they_had(told_apart):
    make = JOBS["sessions until"][0]
    renamed = {("renamed" if name == told_apart else name): function for name, function in START.items()}
    assert verdict(make(START), make(renamed)) == "refresh"


def verdict(before: KeyedJob, after: KeyedJob) -> str:
    return changes_to(after, generation_of(before)).verdict
