"""Spans of joins: pairs and rows without a match are those of plain Python in the span, and stay elsewhere."""

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyfold import Input
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import RunOptions, watermark
from keyfold.operators import as_of_join, interval_join, window_join
from keyfold.runners import Runners
from keyfold.runs.reprocess import reprocess
from keyfold.state.changing.trying import try_job
from keyfold.state.reading.reader import read_state
from tests.examples import examples
from tests.keyfold.runs.spans import EDGES, WHY, in_span, right, stored, wrong
from tests.lake import Lake
from tests.shop import MINUTE, NOON, ORDERS, PAYMENTS, orders, payments

TEN = 10 * MINUTE


def sides(price):
    worth = pl.col("amount").map_batches(price, return_dtype=pl.Int64)
    left = Input(ORDERS, columns=["card", "ordered_at", "item"], delay="3m")
    return left, Input(PAYMENTS.derive(worth=worth), columns=["card", "paid_at", "worth"], delay="3m")


def of_intervals(how, earliest, latest):
    def job(price):
        return interval_join("paid", *sides(price), "card", earliest=earliest, latest=latest, how=how)

    def rows(ordered, paid, reached, price):
        pairs = [(o, p) for o in ordered for p in paid if o[0] == p[0] and earliest <= p[1] - o[1] <= latest]
        # Before the watermark has passed all that might match, a row has no answer.
        alone = (
            []
            if how == "inner"
            else [(o, None) for o in ordered if o not in [order for order, _ in pairs] and o[1] + latest <= reached]
        )
        alone += (
            [(None, p) for p in paid if p not in [payment for _, payment in pairs] and p[1] - earliest <= reached]
            if how == "outer"
            else []
        )
        return [row_of(o, p, price) for o, p in pairs + alone], lambda time: time

    return job, rows


def of_windows(how):
    def job(price):
        return window_join("paid", *sides(price), "card", length="10m", how=how)

    def rows(ordered, paid, reached, price):
        over = [[row for row in side if start(row[1]) + TEN <= reached] for side in (ordered, paid)]
        pairs = [(o, p) for o in over[0] for p in over[1] if o[0] == p[0] and start(o[1]) == start(p[1])]
        left, right_ = [o for o, _ in pairs], [p for _, p in pairs]
        if how == "semi":
            return [(o[0], o[1], o[2]) for o in over[0] if o in left], start
        alone = [(o, None) for o in over[0] if o not in left] if how != "inner" else []
        alone += [(None, p) for p in over[1] if p not in right_] if how == "outer" else []
        return [row_of(o, p, price) for o, p in pairs + alone], start

    return job, rows


def of_versions(price):
    return as_of_join("paid", *sides(price), "card", within="15m")


def newest_versions(ordered, paid, reached, price):
    rows = []
    for o in ordered:
        if o[1] <= reached:
            usable = [p for p in paid if p[0] == o[0] and timedelta() <= o[1] - p[1] <= 15 * MINUTE]
            rows.append(row_of(o, max(usable, key=lambda p: (p[1], price(p[2])), default=None), price))
    return rows, lambda time: time


def start(time):
    return NOON + (time - NOON) // TEN * TEN


def row_of(order, payment, price):
    card = (order or payment)[0]
    of_payment = (payment[1], price(payment[2])) if payment else (None, None)
    return card, *(order[1:] if order else (None, None)), *of_payment


JOINS = {
    "inner": of_intervals("inner", -5 * MINUTE, 12 * MINUTE),
    "left": of_intervals("left", 2 * MINUTE, 12 * MINUTE),
    "outer": of_intervals("outer", -12 * MINUTE, 4 * MINUTE),
    "windows": of_windows("inner"),
    "windows, outer": of_windows("outer"),
    "windows, semi": of_windows("semi"),
    "as of": (of_versions, newest_versions),
}

ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 59), st.integers(0, 9)), max_size=6)
SIDES = st.tuples(ROWS, ROWS)


def put(lake, sides, numbers):
    ordered, paid = sides
    # Each order and each payment is another one.
    lake.put(orders(*((card, at, f"{next(numbers)}") for card, at, _ in ordered)), "orders")
    lake.put(payments(*((card, at, amount + 10 * next(numbers)) for card, at, amount in paid)), "payments")


# A payment without an order, which no time of an order tells from others.
ALONE = {"more": ([], []), "unread": ([], []), "since": None, "until": None, "tiny": True}


@pytest.mark.parametrize("kind", JOINS)
@examples(40, shrinks=False)
@example(parts=[([("b", 23, 9)], [("a", 12, 2), ("b", 54, 4)])], **ALONE)
@given(
    parts=st.lists(SIDES, min_size=1, max_size=3),
    more=SIDES,
    unread=SIDES,
    since=EDGES,
    until=EDGES,
    tiny=st.booleans(),
)
def test_a_span_of_a_join_is_what_plain_python_says(tmp_path_factory, kind, parts, more, unread, since, until, tiny):
    (make, rows), lake = JOINS[kind], Lake(tmp_path_factory.mktemp("home") / "home", Runners("local"))
    since, until = (None if edge is None else NOON + edge[0] * TEN + edge[1] for edge in (since, until))
    if since is not None and until is not None and since >= until:
        since, until = until, since + MINUTE
    options, numbers = {"options": RunOptions(max_bytes_per_batch=1 if tiny else 128 << 20)}, iter(range(10_000))
    old, new = make(wrong), make(right)
    # Without any row there is no batch.
    for part in [([("a", 0, 1)], []), *parts]:
        put(lake, part, numbers)
        lake.run(old, **options)
    read = lake.rows("events.orders"), lake.rows("events.payments")
    put(lake, unread, numbers)
    before, reached = stored(lake, old), watermark(lake.live("paid"))
    state = read_state(lake.lakehouse, old).polars()
    same = {"author": WHY, "runners": lake.session, "yes": True, **options}
    reprocess(lake.lakehouse, new, since, until, **same)
    after = stored(lake, new)
    wanted, time_of = rows(*read, reached, right) if reached else ([], start)

    def is_in(row):
        return in_span(time_of(row[1] or row[3]), since, until)

    assert in_order(filter(is_in, after["paid"])) == in_order(filter(is_in, wanted))
    outside = [[row for row in table["paid"] if not is_in(row)] for table in (before, after)]
    assert outside[0] == outside[1]
    assert_nothing_lost(lake.lakehouse, new)
    assert reprocess(lake.lakehouse, new, since, until, **same).batch is None
    # With the code of before, all is as it would have been if nothing had come late.
    reprocess(lake.lakehouse, old, since, until, **same)
    undone = read_state(lake.lakehouse, old).polars()
    assert undone.height >= state.height
    put(lake, more, numbers)
    lake.run(new, **options)
    lake.run(new, Incremental(advance_to=NOON + 600 * MINUTE))
    assert_nothing_lost(lake.lakehouse, new)


def in_order(rows):
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


@pytest.mark.parametrize("kind", JOINS)
@examples(40, shrinks=False)
@given(sides=SIDES, since=EDGES, until=EDGES)
@example(sides=([("a", 21, 1)], [("a", 17, 1)]), since=(2, 0 * MINUTE), until=None)
def test_a_branch_of_a_span_of_a_join_differs_in_no_row(tmp_path_factory, kind, sides, since, until):
    (make, _), lake = JOINS[kind], Lake(tmp_path_factory.mktemp("home") / "home", Runners("local"))
    since, until = (None if edge is None else NOON + edge[0] * TEN + edge[1] for edge in (since, until))
    if since is not None and until is not None and since >= until:
        since, until = until, since + MINUTE
    numbers = iter(range(10_000))
    for part in ([("a", 0, 1)], []), sides:
        put(lake, part, numbers)
    lake.run(make(wrong))
    trial = try_job(lake.lakehouse, make(wrong), "same", since=since, until=until, runners=lake.session)
    assert trial.tables["paid"].summary().is_equal
