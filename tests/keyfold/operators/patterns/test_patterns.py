"""Patterns against plain Python, whatever the order of arrival, the split into runs, and where the power is cut."""

from datetime import timedelta
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.runner import RunOptions, run_job
from keyfold.operators import FollowedBy, Times, Without, pattern_job
from keyfold.testing import assert_same, play
from spark_jobs.streams import SALES
from tests.examples import examples
from tests.keyfold.operators.patterns.pattern_oracle import Spelled, in_order, matches
from tests.keyfold.state.job_histories import put
from tests.on_a_grid import many_of
from tests.spark_jobs.jobs.sales_data import NOON, sale, sales_frame

MINUTE = timedelta(minutes=1)
END = NOON + timedelta(days=2)
DELAY = 20 * MINUTE
QUANTITY, PRICE = pl.col("quantity"), pl.col("price")
DEARER = pl.col("first_price") < PRICE


def bought(event):
    return event["quantity"] > 0


def returned(event):
    return event["quantity"] < 0


def dearer(first, last):
    return None not in (first["price"], last["price"]) and last["price"] > first["price"]


PATTERNS = {
    "returned": (
        FollowedBy(QUANTITY > 0, QUANTITY < 0, within=5 * MINUTE),
        Spelled("followed_by", bought, 5 * MINUTE, returned),
    ),
    "dearer": (
        FollowedBy(QUANTITY > 0, QUANTITY > 0, within=7 * MINUTE, where=DEARER),
        Spelled("followed_by", bought, 7 * MINUTE, bought, dearer),
    ),
    "dearer_at_once": (
        FollowedBy(QUANTITY > 0, PRICE.is_not_null(), within=7 * MINUTE, where=DEARER, next_only=True),
        Spelled("next", bought, 7 * MINUTE, lambda event: event["price"] is not None, dearer),
    ),
    "very_next_is_a_return": (
        FollowedBy(pl.lit(value=True), pl.lit(value=True), 9 * MINUTE, QUANTITY < 0, next_only=True),
        Spelled("next", lambda _: True, 9 * MINUTE, where=lambda _, last: last["quantity"] < 0),
    ),
    "kept": (
        Without(QUANTITY > 0, QUANTITY < 0, for_=5 * MINUTE),
        Spelled("without", bought, 5 * MINUTE, returned),
    ),
    "never_dearer": (
        Without(QUANTITY > 1, QUANTITY > 0, for_=90 * MINUTE, where=DEARER),
        Spelled("without", lambda event: event["quantity"] > 1, 90 * MINUTE, bought, dearer),
    ),
    "twice": (Times(2, QUANTITY < 0, within=3 * MINUTE), Spelled("times", returned, 3 * MINUTE, n=2)),
    "four_times": (Times(4, QUANTITY > 0, within=30 * MINUTE), Spelled("times", bought, 30 * MINUTE, n=4)),
}


def job_of(*names, **more):
    return pattern_job(
        "found",
        Input(SALES, delay=more.pop("watermark_delay", DELAY)),
        key="item",
        patterns={name: PATTERNS[name][0] for name in names or PATTERNS},
        keep=["quantity", "price"],
        **more,
    )


ALL = job_of()
TOLD = ("time", "quantity", "price")


def frame(sales):
    return sales_frame(sales).select(ALL.columns.names)


def expected(sales, names=PATTERNS, end=END):
    """Every match as a row of the table."""
    events = frame(sales).to_dicts()
    return sorted(
        (
            (item, name, *(event and event[column] for column in TOLD for event in (first, last)))
            for name in names
            for item, told in in_order(events, "item", "time", ALL.columns.names).items()
            for first, last in matches(PATTERNS[name][1], told, "time", end)
        ),
        key=repr,
    )


def rows(harness):
    return sorted(harness.written["found"].rows(), key=repr)


SALES_AT = st.builds(
    sale,
    st.sampled_from(["cup", "hat"]),
    st.integers(-2, 3),
    # A few moments, so that many tie, over more than one hour.
    st.integers(0, 40).map(lambda twos: twos * 2),
    price=st.none() | st.sampled_from([1.0, 2.0, 3.0]),
)


@examples(60)
@given(many_of(SALES_AT, 25, 0), st.randoms(use_true_random=False), st.lists(st.integers(0, 25), max_size=3))
def test_any_order_and_any_split_into_runs_and_slices_give_what_plain_python_finds(sales, random, ends):
    # Each comes later than it should by less than the delay: in any order, and none is late.
    arriving = sorted(sales, key=lambda one: one["time"] + random.uniform(0, 0.99) * DELAY)
    runs = [arriving[since:until] for since, until in pairwise(sorted({0, len(arriving), *ends}))]
    cuts = [NOON + minutes * MINUTE for minutes in random.sample(range(80), 3)]
    played = play(ALL, [frame(run) for run in runs if run], END, cuts=cuts)
    assert rows(played) == expected(sales)
    assert played.written["late.found"].is_empty()
    at_once = play(ALL, [frame(sales)] if sales else [], END)
    assert_same(ALL, played, at_once)
    assert at_once.state.is_empty()


@examples(60)
@given(many_of(SALES_AT, 25, 0), st.lists(st.integers(0, 25), max_size=4))
def test_what_is_late_is_told_and_the_rest_is_matched_as_if_it_had_never_been(sales, ends):
    job = job_of(watermark_delay=timedelta(0))
    runs = [sales[since:until] for since, until in pairwise(sorted({0, len(sales), *ends}))]
    harness = play(job, [frame(run) for run in runs if run], END)
    newest, on_time = NOON - timedelta(days=1), []
    for run in runs:
        on_time += [one for one in run if one["time"] > newest]
        newest = max([newest, *(one["time"] for one in run)])
    assert harness.written["late.found"].height == len(sales) - len(on_time)
    assert rows(harness) == expected(on_time)


@pytest.mark.parametrize("point", ["work: before", "work: files written", "done: after", "commit: one table"])
def test_a_crash_anywhere_changes_no_row(without_spark, cut_power, lakehouse, point):
    job, options = job_of(key_groups=3), RunOptions(max_bytes_per_batch=1)
    sales = [
        sale("ch"[place % 2], place * 7 % 5 - 1, place * 13 % 89, price=[1.0, 2.0, None][place % 3])
        for place in range(80)
    ]
    sales.sort(key=lambda one: one["time"] + one["quantity"] * MINUTE)
    for part in (sales[:30], sales[30:55], sales[55:]):
        put(lakehouse, "sales", sales_frame(part[1::2]))
        put(lakehouse, "sales", sales_frame(part[::2]))
        assert cut_power(point, lambda: run_job(lakehouse, job, options=options, runners=without_spark))
        run_job(lakehouse, job, options=options, runners=without_spark)
    run_job(lakehouse, job, Incremental(advance_to=END), runners=without_spark)
    table = pl.read_delta(str(lakehouse.table("found"))).select(job.main.schema.names)
    assert sorted(table.rows(), key=repr) == expected(sales)
    assert pl.read_delta(str(lakehouse.table("late.found"))).is_empty()


def test_both_ends_of_the_time_count_and_one_microsecond_more_does_not():
    tick = timedelta(microseconds=1) / MINUTE
    sales = [sale("cup", 1, 0), sale("cup", -1, 5), sale("hat", 1, 0), sale("hat", -1, 5 + tick)]
    found = play(job_of("returned", "kept"), [frame(sales)], END).written["found"]
    assert sorted(found.select("item", "pattern").rows()) == [("cup", "returned"), ("hat", "kept")]
    returns = [sale("cup", -1, 0), sale("cup", -1, 3), sale("hat", -1, 0), sale("hat", -1, 3 + tick)]
    assert play(job_of("twice"), [frame(returns)], END).written["found"]["item"].to_list() == ["cup"]


def test_an_event_is_searched_when_the_watermark_has_reached_it():
    sales = frame([sale("cup", 1, 0), sale("cup", -1, 5)])
    assert play(job_of("returned"), [sales], NOON + 5 * MINUTE).written["found"].height == 1


def test_without_is_told_when_the_watermark_reaches_the_end_of_its_time_and_not_before():
    job, sales = job_of("kept"), frame([sale("cup", 1, 0)])
    before = play(job, [sales], NOON + 5 * MINUTE - timedelta(microseconds=1))
    assert before.written["found"].is_empty()
    assert before.state.filter(pattern="kept")["deadline"].to_list() == [NOON + 5 * MINUTE]
    assert play(job, [sales], NOON + 5 * MINUTE).written["found"].height == 1


def test_state_holds_what_may_still_match():
    sales = [sale("cup", 1, minute / 10) for minute in range(200)]
    harness = play(job_of("four_times"), [frame(sales)], NOON + 25 * MINUTE)
    # Of four, the last three wait for more; the rest has been answered.
    assert harness.state["pattern"].to_list() == ["four_times"] * 3
    assert play(job_of("four_times"), [frame(sales)], NOON + timedelta(hours=1)).state.is_empty()


def test_very_many_candidates_that_do_not_fit_are_passed_over_to_the_one_that_does():
    price = [2.0] * 3000 + [3.0]
    sales = [sale("cup", 1, at / 600, price=one) for at, one in enumerate(price)]
    found = play(job_of("dearer"), [frame(sales)], END).written["found"]
    assert found["last_price"].to_list() == [3.0] * 3000


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"patterns": {}}, "patterns is empty"),
        ({"keep": ["colour"]}, r"stream sales has no column colour \(key, keep\)"),
        ({"patterns": {"odd": Times(2, pl.col("colour") > 1, MINUTE)}}, r"no column colour \(pattern odd\)"),
        (
            {"patterns": {"odd": FollowedBy(QUANTITY > 0, QUANTITY < 0, MINUTE, pl.col("first_colour") > QUANTITY)}},
            r"no column colour \(pattern odd\)",
        ),
        ({"keep": ["item"]}, "which is of the key"),
    ],
)
def test_what_does_not_fit_the_stream_is_refused_where_the_job_is_made(changes, said):
    given = {"patterns": {"twice": PATTERNS["twice"][0]}, "watermark_delay": DELAY, **changes}
    with pytest.raises(KeyfoldError, match=said):
        pattern_job("found", SALES, key="item", **given)


def test_a_pattern_without_a_time_or_of_one_event_is_refused():
    for make in (
        lambda: FollowedBy(QUANTITY > 0, QUANTITY < 0, within=timedelta(0)),
        lambda: Without(QUANTITY > 0, QUANTITY < 0, for_=-MINUTE),
        lambda: Times(1, QUANTITY > 0, within=MINUTE),
    ):
        with pytest.raises(KeyfoldError, match=r"must be more than nothing|must be 2 at least"):
            make()
