"""Joins give what DuckDB gives over all rows at once, in any order within a run, any split into runs, and free their state."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import Input, Misconfigured, Stream, TestHarness
from keyfold.operators import as_of_join, interval_join, window_join
from keyfold.stream import TIMESTAMP
from tests.examples import examples
from tests.on_a_grid import assert_nothing_is_due, many_of, moments, on_grid
from tests.shop import CARD, MINUTE, NOON, PAYMENT, PAYMENTS

ORDER = pa.schema([CARD, pa.field("ordered_at", TIMESTAMP, nullable=False), pa.field("item", pa.int64())])
LEFT = Input(Stream("orders", ORDER, event_time="ordered_at"), columns=ORDER)
RIGHT = Input(PAYMENTS, columns=PAYMENT)
KEY = "card"

ROWS = many_of(st.tuples(st.sampled_from("abc"), moments(60, 5), st.integers(0, 9)), 15, 0)
CUTS = st.lists(on_grid(61, 5), max_size=4, unique=True)
HOW = st.sampled_from(["inner", "left", "outer"])


def frame(schema, rows):
    key, time, value = schema.names
    made: list[dict[str, Any]] = [{key: card, time: NOON + at * MINUTE, value: number} for card, at, number in rows]
    return pl.DataFrame(made, schema=dict(pl.DataFrame(schema.empty_table()).schema))


def played(job, orders, payments, cuts=(), shuffle=None):
    """The job's table after runs that bring the rows up to each cut, and a last one in which all time passes."""
    harness, before = TestHarness(job), -1
    for cut in [*sorted(cuts), 61]:
        came = [[row for row in rows if before < row[1] <= cut] for rows in (orders, payments)]
        for rows in came:
            if shuffle:
                shuffle.shuffle(rows)
        # As the engine says of slices: all up to the cut has come, of both sides.
        harness.batch(
            {"orders": frame(ORDER, came[0]), "payments": frame(PAYMENT, came[1])}, advance_to=NOON + cut * MINUTE
        )
        assert_nothing_is_due(harness)
        before = cut
    harness.batch(advance_to=NOON + timedelta(days=3))
    assert harness.state.is_empty(), "the watermark frees all state"
    assert harness.written[job.late_table].is_empty()
    return harness.written[job.name]


def sql(query, orders, payments, **values):
    left, right = frame(ORDER, orders), frame(PAYMENT, payments)
    connection = duckdb.connect()
    connection.register("orders", left)
    connection.register("payments", right)
    return connection.sql(query, params=values).pl()


def assert_same_rows(found, expected):
    order = ["card", "ordered_at", "item", "paid_at", "amount"]
    assert sorted(found.select(order).rows(), key=repr) == sorted(expected.select(order).rows(), key=repr)


WITHIN = """
    SELECT coalesce(o.card, p.card) AS card, ordered_at, item, paid_at, amount FROM orders o {how} JOIN payments p
    ON o.card = p.card AND paid_at - ordered_at BETWEEN $earliest AND $latest
"""

IN_ONE = "FROM orders o SEMI JOIN payments p ON o.card = p.card AND epoch_us(ordered_at) // $length = epoch_us(paid_at) // $length"
IN_WINDOW = """
    SELECT coalesce(o.card, p.card) AS card, ordered_at, item, paid_at, amount FROM orders o {how} JOIN payments p
    ON o.card = p.card AND epoch_us(ordered_at) // $length = epoch_us(paid_at) // $length
"""


@examples(200)
@given(ROWS, ROWS, CUTS, HOW, on_grid(20, 5, -20), on_grid(20, 5), st.randoms(use_true_random=False))
def test_an_interval_join_writes_each_pair_and_each_miss_once(orders, payments, cuts, how, earliest, length, random):
    earliest, latest = earliest * MINUTE, (earliest + length) * MINUTE
    job = interval_join("joined", LEFT, RIGHT, KEY, earliest=earliest, latest=latest, how=how)
    kind = {"inner": "INNER", "left": "LEFT", "outer": "FULL OUTER"}[how]
    expected = sql(WITHIN.format(how=kind), orders, payments, earliest=earliest, latest=latest)
    assert_same_rows(played(job, orders, payments, cuts, random), expected)


@examples(200)
@given(ROWS, ROWS, CUTS, st.sampled_from(["inner", "left"]), on_grid(30, 5), st.randoms(use_true_random=False))
def test_an_as_of_join_finds_the_newest_version_of_its_time(orders, payments, cuts, how, age, random):
    job = as_of_join("joined", LEFT, RIGHT, KEY, within=age * MINUTE, how=how)
    # Of versions of one time the one whose values sort last.
    expected = sql(
        """
        WITH versions AS (SELECT card, paid_at, max(amount) AS amount FROM payments GROUP BY ALL),
        found AS (SELECT o.card, ordered_at, item, p.paid_at, amount FROM orders o ASOF LEFT JOIN versions p
            ON o.card = p.card AND ordered_at >= p.paid_at)
        SELECT card, ordered_at, item, CASE WHEN ordered_at - paid_at <= $age THEN paid_at END AS paid_at,
            CASE WHEN ordered_at - paid_at <= $age THEN amount END AS amount
        FROM found WHERE $keeps_misses OR ordered_at - paid_at <= $age
        """,
        orders,
        payments,
        age=age * MINUTE,
        keeps_misses=how == "left",
    )
    assert_same_rows(played(job, orders, payments, cuts, random), expected)


@examples(160)
@given(ROWS, ROWS, CUTS, HOW | st.just("semi"), st.sampled_from([7, 10, 60]))
def test_a_window_join_matches_rows_of_one_window(orders, payments, cuts, how, minutes):
    found = played(window_join("joined", LEFT, RIGHT, KEY, length=minutes * MINUTE, how=how), orders, payments, cuts)
    kind = {"inner": "INNER", "left": "LEFT", "outer": "FULL OUTER", "semi": "SEMI"}[how]
    query = (IN_ONE if how == "semi" else IN_WINDOW).format(how=kind)
    expected = sql(query, orders, payments, length=minutes * 60_000_000)
    if how == "semi":
        assert sorted(found.rows()) == sorted(expected.rows())
    else:
        assert_same_rows(found, expected)


def test_a_join_that_finds_much_costs_what_it_finds_and_not_all_pairs_of_a_key():
    """With one key and 60,000 rows a side all pairs would be 3.6 thousand millions, which no machine here holds."""
    rows = [("a", at, 1) for at in range(60_000)]
    job = interval_join("joined", LEFT, RIGHT, KEY, earliest=timedelta(0), latest=timedelta(0))
    harness = TestHarness(job)
    harness.batch({"orders": frame(ORDER, rows), "payments": frame(PAYMENT, rows)})
    assert harness.written["joined"].height == 60_000


@pytest.mark.parametrize(("minutes", "versions"), [(9, 2), (10, 1)])
def test_a_version_leaves_state_when_the_watermark_has_reached_the_next_one(minutes, versions):
    harness = TestHarness(as_of_join("joined", LEFT, RIGHT, KEY, within=timedelta(hours=1)))
    # Event time is that of the order, which comes before or with the newer version.
    came = {"orders": frame(ORDER, [("a", minutes, 1)]), "payments": frame(PAYMENT, [("a", 5, 1), ("a", 10, 2)])}
    harness.batch(came)
    assert harness.state.height == versions


CLASH = pa.schema([*PAYMENT, pa.field("item", pa.int64())])
JOINS: dict[str, Callable[..., Any]] = {
    "as_of": lambda left, right: as_of_join("j", left, right, KEY, within=MINUTE),
    "interval": lambda left, right: interval_join("j", left, right, KEY, earliest="0s", latest=MINUTE),
    "window": lambda left, right: window_join("j", left, right, KEY, length=MINUTE),
}


@pytest.mark.parametrize("join", JOINS)
def test_two_streams_as_they_are_can_be_joined_and_a_side_has_its_arrival_where_it_asks_for_it(join):
    make, orders, payments = JOINS[join], LEFT.stream, RIGHT.stream
    written = [*ORDER.names, *(name for name in PAYMENT.names if name != KEY)]
    refined = orders.where(pl.col("item") > 0).derive(double=pl.col("item") * 2)
    assert make(orders, payments).main.schema.names == written
    assert make(refined, ("other", payments)).main.schema.names == [
        *ORDER.names,
        "double",
        *written[len(ORDER.names) :],
    ]
    asked = Input(orders, columns=[*ORDER.names, "ingested_at"])
    assert make(asked, payments).main.schema.names == [*ORDER.names, "ingested_at", *written[len(ORDER.names) :]]
    by_arrival = make(Input(orders, at="ingested_at"), payments)
    assert "ingested_at" in by_arrival.main.schema.names


CLASHING = Input(Stream("payments", CLASH, event_time="paid_at"), columns=CLASH)
RENAME = r"have .*; rename it on one side with `derive\(other=pl.col\('\w+'\)\)` and at='other'"
FAULTS: dict[str, Callable[[], Any]] = {
    "earliest .* is after latest": lambda: interval_join("j", LEFT, RIGHT, KEY, earliest=MINUTE, latest=-MINUTE),
    "how is 'semi'; it must be one of inner, left, outer": lambda: interval_join(
        "j", LEFT, RIGHT, KEY, earliest="0s", latest="1m", how=cast(Any, "semi")
    ),
    "within, .*, is -1 day": lambda: as_of_join("j", LEFT, RIGHT, KEY, within=-MINUTE),
    "must be positive": lambda: window_join("j", LEFT, RIGHT, KEY, length=timedelta(0)),
    "both orders and payments have item; rename it": lambda: as_of_join("j", LEFT, CLASHING, KEY, within=MINUTE),
    RENAME: lambda: as_of_join("j", LEFT, ("other", LEFT), KEY, within=MINUTE),
    "both sides are called orders": lambda: as_of_join("j", LEFT, LEFT, KEY, within=MINUTE),
}


@pytest.mark.parametrize("reason", FAULTS)
def test_a_join_that_makes_no_sense_is_refused_where_it_is_made(reason):
    with pytest.raises(Misconfigured, match=reason):
        FAULTS[reason]()
