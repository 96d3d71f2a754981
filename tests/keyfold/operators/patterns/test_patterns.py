"""Patterns against plain Python, whatever the order of arrival, the split into runs, and where the power is cut."""

from datetime import timedelta
from itertools import pairwise

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.inputs import Input
from keyfold.operators import Next, Pattern, Then, Without, pattern
from keyfold.stream import Stream
from keyfold.testing import assert_same, play
from spark_jobs.streams import SALES
from tests.examples import examples
from tests.keyfold.operators.patterns.pattern_oracle import in_order, matches
from tests.on_a_grid import many_of
from tests.shop import MINUTE, NOON
from tests.spark_jobs.jobs.sales_data import sale, sales_frame

END = NOON + timedelta(days=2)
DELAY = 20 * MINUTE
QUANTITY, PRICE = pl.col("quantity"), pl.col("price")
DEARER = pl.col("one_price") < PRICE
LATE_BACK = pl.col("two_time") - pl.col("one_time") > 4 * MINUTE


def bought(event):
    return event["quantity"] > 0


def returned(event):
    return event["quantity"] < 0


def late_back(two, one):
    return two["time"] - one["time"] > 4 * MINUTE


def anything(*_):
    return True


def rises(last, first):
    return None not in (first["price"], last["price"]) and last["price"] > first["price"]


SOLD = ("then", bought, anything)
BACK = ("then", returned, anything)

PATTERNS = {
    "returned": (Pattern({"one": QUANTITY > 0, "two": QUANTITY < 0}, within="5m"), [SOLD, BACK]),
    "dearer": (
        Pattern({"one": QUANTITY > 0, "two": Then(QUANTITY > 0, where=DEARER)}, within="7m"),
        [SOLD, ("then", bought, rises)],
    ),
    "dearer_at_once": (
        Pattern({"one": QUANTITY > 0, "two": Next(PRICE.is_not_null(), where=DEARER)}, within="7m"),
        [SOLD, ("next", lambda event: event["price"] is not None, rises)],
    ),
    "very_next_is_a_return": (
        Pattern({"one": pl.lit(value=True), "two": Next(pl.lit(value=True), where=QUANTITY < 0)}, within="9m"),
        [("then", anything, anything), ("next", anything, lambda last, _: returned(last))],
    ),
    "kept": (
        Pattern({"one": QUANTITY > 0, "two": Without(QUANTITY < 0)}, within="5m"),
        [SOLD, ("without", returned, anything)],
    ),
    "never_dearer": (
        Pattern({"one": QUANTITY > 1, "two": Without(QUANTITY > 0, where=DEARER)}, within="90m"),
        [("then", lambda event: event["quantity"] > 1, anything), ("without", bought, rises)],
    ),
    "twice": (Pattern({"one": QUANTITY < 0, "two": QUANTITY < 0}, within="3m"), [BACK, BACK]),
    "four_times": (
        Pattern(dict.fromkeys(("one", "two", "three", "four"), QUANTITY > 0), within="30m"),
        [SOLD] * 4,
    ),
    "back_and_sold_for_more": (
        Pattern(
            {"one": QUANTITY > 0, "two": QUANTITY < 0, "three": Then(QUANTITY > 0, where=DEARER & ~LATE_BACK)},
            within="20m",
        ),
        [SOLD, BACK, ("then", bought, lambda last, one, two: rises(last, one) and not late_back(two, one))],
    ),
    "back_at_once_and_not_sold_again": (
        Pattern(
            {
                "one": QUANTITY > 0,
                "two": Next(QUANTITY != 0, where=QUANTITY < 0),
                "three": Without(QUANTITY > 0, where=pl.col("one_quantity") - pl.col("two_quantity") - 2 <= QUANTITY),
            },
            within="15m",
        ),
        [
            SOLD,
            ("next", lambda event: event["quantity"] != 0, lambda last, _: returned(last)),
            ("without", bought, lambda last, one, two: last["quantity"] >= one["quantity"] - two["quantity"] - 2),
        ],
    ),
    "next_of_the_second": (
        Pattern(
            {"one": QUANTITY < 0, "two": QUANTITY > 0, "three": Next(QUANTITY != 0, where=QUANTITY > 0)}, within="12m"
        ),
        [BACK, SOLD, ("next", lambda event: event["quantity"] != 0, lambda last, *_: bought(last))],
    ),
}


def job_of(*names, **more):
    return pattern(
        "found",
        Input(SALES, delay=more.pop("delay", DELAY)),
        {name: PATTERNS[name][0] for name in names or PATTERNS},
        key="item",
        keep=["quantity", "price"],
        **more,
    )


ALL = job_of()
TOLD = ("time", "quantity", "price")


def frame_of(job, sales):
    return sales_frame(sales).select(job.columns.names)


def frame(sales):
    return frame_of(ALL, sales)


def expected(sales, names=PATTERNS, end=END):
    """Every match as a row: the item, the pattern, and of each column those of the steps' events."""
    events = frame(sales).to_dicts()
    return sorted(
        (
            (item, name, *((match[at][column] if at < len(match) else None) for column in TOLD for at in range(4)))
            for name in names
            for item, told in in_order(events, "item", "time", ALL.columns.names).items()
            for match in matches(PATTERNS[name][1], PATTERNS[name][0].within, told, "time", end)
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
    job = job_of(delay=timedelta(0))
    runs = [sales[since:until] for since, until in pairwise(sorted({0, len(sales), *ends}))]
    harness = play(job, [frame(run) for run in runs if run], END)
    newest, on_time = NOON - timedelta(days=1), []
    for run in runs:
        on_time += [one for one in run if one["time"] > newest]
        newest = max([newest, *(one["time"] for one in run)])
    assert harness.written["late.found"].height == len(sales) - len(on_time)
    assert rows(harness) == expected(on_time)


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


def test_an_event_at_the_watermark_is_late():
    job = job_of("returned", delay=timedelta(0))
    found = play(job, [frame([sale("cup", 1, 0), sale("hat", 1, 3)]), frame([sale("cup", -1, 3)])], END).written
    assert found["late.found"].height == 1
    assert found["found"].is_empty()


def test_without_is_told_when_the_watermark_reaches_the_end_of_its_time_and_not_before():
    job, sales = job_of("kept"), frame([sale("cup", 1, 0)])
    before = play(job, [sales], NOON + 5 * MINUTE - timedelta(microseconds=1))
    assert before.written["found"].is_empty()
    assert before.state.filter(pattern="kept")["deadline"].to_list() == [NOON + 5 * MINUTE]
    assert play(job, [sales], NOON + 5 * MINUTE).written["found"].height == 1


def test_state_holds_what_may_still_match():
    sales = [sale("cup", 1, minute / 10) for minute in range(200)]
    harness = play(job_of("four_times"), [frame(sales)], NOON + 25 * MINUTE)
    # Of all that have begun, the last three wait for more; each is a row that says how far it is.
    waits = harness.state.sort("one_time").select(
        pl.col("one_time", "two_time", "three_time", "four_time").is_not_null()
    )
    assert waits.rows() == [(True, True, True, False), (True, True, False, False), (True, False, False, False)]
    assert play(job_of("four_times"), [frame(sales)], NOON + timedelta(hours=1)).state.is_empty()


def test_very_many_candidates_that_do_not_fit_are_passed_over_to_the_one_that_does():
    price = [2.0] * 3000 + [3.0]
    sales = [sale("cup", 1, at / 600, price=one) for at, one in enumerate(price)]
    found = play(job_of("dearer"), [frame(sales)], END).written["found"]
    assert found["two_price"].to_list() == [3.0] * 3000


def test_a_step_keeps_the_first_event_that_fits_although_a_later_one_would_let_the_next_step_match():
    quantity_falls = Then(QUANTITY > 0, where=pl.col("two_quantity") - 1 == QUANTITY)
    job = pattern(
        "found",
        Input(SALES, delay=DELAY),
        {"steps": Pattern({"one": QUANTITY < 0, "two": QUANTITY > 0, "three": quantity_falls}, within="1h")},
        key="item",
    )
    sales = [sale("cup", -1, 0), sale("cup", 5, 1), sale("cup", 3, 2), sale("cup", 2, 3)]
    assert play(job, [frame_of(job, sales)], END).written["found"].is_empty()
    found = play(job, [frame_of(job, [*sales, sale("cup", 4, 4)])], END).written["found"]
    assert found["three_time"].to_list() == [NOON + 4 * MINUTE]


def after(column):
    return {"odd": ("one", {"two": Then(QUANTITY < 0, where=pl.col(column) > QUANTITY)})}


@pytest.mark.parametrize(
    ("patterns", "keep", "said"),
    [
        ({}, [], "patterns is empty"),
        ({"twice": ("one", "two")}, ["colour"], r"stream sales has no column colour \(key, keep\)"),
        ({"odd": ("one", {"two": pl.col("colour") > 1})}, [], r"no column colour \(pattern odd\)"),
        (after("one_colour"), [], "no column one_colour"),
        (after("two_price"), [], "no column two_price"),
        (after("six_price"), [], "no column six_price"),
        ({"twice": ("one", "two")}, ["item"], "keep has item, which is in every row"),
        ({"twice": ("one", "two")}, ["time"], "keep has time, which is in every row"),
        ({"twice": ("one", "two")}, ["price", "one_price"], "has a column one_price too; give the step another name"),
    ],
)
def test_what_does_not_fit_the_stream_is_refused_where_the_job_is_made(patterns, keep, said):
    made = {}
    for name, steps in patterns.items():
        named = [step if isinstance(step, dict) else {step: QUANTITY > 0} for step in steps]
        made[name] = Pattern(dict(item for one in named for item in one.items()), within=MINUTE)
    more = [pa.field("one_price", pa.float64())] if "one_price" in keep else []
    stream = Stream("sales", pa.schema([*SALES.schema, *more]), event_time="time")
    with pytest.raises(KeyfoldError, match=said):
        pattern("found", stream, made, key="item", keep=keep)


@pytest.mark.parametrize(
    ("steps", "within", "said"),
    [
        ({"one": QUANTITY > 0, "two": QUANTITY < 0}, timedelta(0), "must be positive"),
        ({"one": QUANTITY > 0, "two": QUANTITY < 0}, -MINUTE, "must not be negative"),
        ({"one": QUANTITY > 0, "two": QUANTITY < 0}, "soon", "write a number and s, m, h or d"),
        ({"one": QUANTITY > 0}, MINUTE, "it has 1, and needs at least 2 steps"),
        (
            {"one": Then(QUANTITY > 0, where=DEARER), "two": QUANTITY > 0},
            MINUTE,
            "the first step must be a plain condition and not one",
        ),
        (
            {"one": Without(QUANTITY > 0), "two": QUANTITY > 0},
            MINUTE,
            "the first step must be a plain condition and not one",
        ),
        ({"one": QUANTITY > 0, "two": Without(PRICE > 0), "three": PRICE > 0}, MINUTE, "two is a Without"),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(steps, within, said):
    with pytest.raises(KeyfoldError, match=said):
        Pattern(steps, within=within)
