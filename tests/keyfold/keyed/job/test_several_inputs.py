"""Jobs with several inputs: one clock over all, whatever came first and however it was cut."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import keyfold
from keyfold import Input, KeyedJob, Misconfigured, Step, TestHarness
from keyfold.keyed.conservation import check_conservation
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.tables import Append
from tests.examples import examples
from tests.on_a_grid import moments
from tests.shop import CARD, MINUTE, NOON, ORDER, ORDERS, PAYMENT, PAYMENTS, orders, payments
from tests.two_inputs import Till, clock_of, first_payments, orders_and_payments


def by_definition(all_orders, all_payments, until):
    """The answer, of all events at once."""
    connection = duckdb.connect()
    connection.register("all_orders", all_orders)
    connection.register("all_payments", all_payments)
    return connection.sql(
        """
        WITH events AS (
            SELECT card, ordered_at AS moment, 1 AS is_order, NULL AS amount FROM all_orders
            UNION ALL SELECT card, paid_at, 0, amount FROM all_payments
        )
        SELECT card, date_trunc('hour', moment) AS hour, sum(is_order)::BIGINT AS orders,
            (count(*) - sum(is_order))::BIGINT AS payments, arg_min(amount, moment) FILTER (is_order = 0) AS first
        FROM events WHERE date_trunc('hour', moment) + INTERVAL 1 HOUR <= $until GROUP BY ALL
        """,
        params={"until": until},
    ).pl()


EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), moments(240, 20), st.integers(1, 9)),
    max_size=12,
    unique_by=lambda one: one[:2],
)
CUTS = st.lists(st.integers(0, 12), max_size=2)


@examples(20, shrinks=False, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, EVENTS, CUTS, CUTS, st.booleans(), st.sampled_from([1, 1 << 30]))
def test_the_answer_is_the_same_however_inputs_come_and_whichever_comes_first(
    tmp_path_factory, some_orders, some_payments, order_cuts, payment_cuts, orders_first, max_bytes
):
    # In order of event time each, so that nothing is late; the inputs come at any pace beside each other.
    all_orders = orders(*((card, at, str(item)) for card, at, item in sorted(some_orders, key=lambda one: one[1])))
    all_payments = payments(*sorted(some_payments, key=lambda one: one[1]))
    home = Till(tmp_path_factory.mktemp("home"))
    shares = [
        *((ORDERS, part) for part in parts_of(all_orders, order_cuts)),
        *((PAYMENTS, part) for part in parts_of(all_payments, payment_cuts)),
    ]
    if not orders_first:
        # Stable: the parts of each input stay in their order.
        shares.sort(key=lambda one: one[0] is ORDERS)
    for stream, part in shares:
        home.land(stream, part)
        home.run(max_bytes=max_bytes)
    end = NOON + timedelta(days=1)
    home.run(end, max_bytes)
    columns = ["card", "hour", "orders", "payments", "first"]
    expected = by_definition(all_orders, all_payments, end).select(columns)
    assert sorted(home.table().select(columns).rows()) == sorted(expected.rows())
    assert home.table("late.hours").is_empty()
    if shares:
        assert home.done.total_by_input == {"orders": all_orders.height, "payments": all_payments.height}


def parts_of(frame, cuts):
    bounds = sorted({0, frame.height, *(min(cut, frame.height) for cut in cuts)})
    return [frame[start:end] for start, end in pairwise(bounds)]


def test_an_idle_input_holds_nothing_back_and_says_so_when_it_wakes_with_older_events(tmp_path, monkeypatch):
    home = Till(tmp_path, orders_and_payments(idle_timeout=timedelta(hours=1)))
    later = clock_of(monkeypatch)
    home.land(PAYMENTS, payments(("a", 30, 7)))
    home.land(ORDERS, orders(("a", 0, "tea")))
    home.run()
    later(timedelta(minutes=59))
    home.land(ORDERS, orders(("a", 300, "jam")))
    home.run()
    assert home.table().is_empty(), "payments are waited for"
    later(timedelta(minutes=1))
    home.run()
    assert home.table().height == 1, "payments are idle, though nothing came"
    home.land(PAYMENTS, payments(("c", 40, 9), ("b", 310, 3)))
    summary = home.run()
    assert any("input payments brings events again" in warning for warning in summary.warnings)
    late = home.table("late.hours")
    assert late.select("input", "card", "amount").rows() == [("payments", "c", 9)]
    home.run(NOON + timedelta(days=1))
    assert home.table().select(pl.col("orders", "payments").sum()).rows() == [(2, 2)]
    assert home.done.total_by_input == {"orders": 2, "payments": 3}


def test_the_clock_tells_how_far_each_input_has_come():
    seen = []

    def step(state, events, clock):
        seen.append(dict(clock.watermarks))
        assert clock.watermark == min(clock.watermarks.values())
        return Step(state=state, output=pl.DataFrame(schema=harness.written["hours"].schema))

    harness = TestHarness(replace(orders_and_payments(), step=step))
    harness.batch({"orders": orders(("a", 60, "tea")), "payments": payments(("a", 20, 1))})
    assert all(one == {"orders": NOON + 55 * MINUTE, "payments": NOON + 10 * MINUTE} for one in seen)
    assert harness.watermark == NOON + 10 * MINUTE
    seen.clear()
    harness.batch({"orders": orders(("a", 90, "tea")), "payments": payments(("a", 30, 1), ("b", 100, 1))})
    # As far as events up to 12:30 bring each input, and then all.
    assert seen[0] == {"orders": NOON + 25 * MINUTE, "payments": NOON + 20 * MINUTE}
    assert seen[-1] == {"orders": NOON + 85 * MINUTE, "payments": NOON + 90 * MINUTE}


def test_an_event_is_late_by_what_its_own_input_says():
    both = orders_and_payments()
    of_payments = replace(both.inputs["payments"], final_at="paid_at")
    harness = TestHarness(replace(both, inputs={**both.inputs, "payments": of_payments}))
    harness.batch({"orders": orders(("a", 30, "tea")), "payments": payments(("a", 30, 1))})
    harness.batch({"orders": orders(("b", 0, "tea")), "payments": payments(("b", 0, 1), ("b", 21, 1))})
    assert harness.written["late.hours"].select("input", "event_time").rows() == [("payments", NOON)]


def test_an_event_that_is_lost_on_the_way_shows_in_its_input(tmp_path):
    home = Till(tmp_path)
    home.land(ORDERS, orders(("a", 0, "tea")))
    home.land(PAYMENTS, payments(("a", 5, 4)))
    home.run()
    counted = check_conservation(home.lakehouse, home.job)
    assert counted.balanced
    assert (counted.events_read, counted.by_input) == (2, {"orders": (1, 1), "payments": (1, 1)})
    forged = home.done.model_copy(update={"total_by_input": {"orders": 2, "payments": 0}})
    home.generation.journal.amend([], [forged])
    found = check_conservation(home.lakehouse, home.job)
    assert not found.balanced
    with pytest.raises(AssertionError, match="orders: 1 read and 2 journalled; payments: 1 read and 0 journalled"):
        keyfold.assert_nothing_lost(home.lakehouse, home.job)


def test_the_time_of_an_input_may_be_in_the_key():
    moment = pa.schema([ORDER.field("ordered_at")])
    of_orders = Input(ORDERS, columns=ORDER, final_at=STEP_DECIDES)
    counted = KeyedJob(
        "moments",
        {"orders": of_orders, "others": replace(of_orders, source=ORDERS.where(pl.col("item") == "none"))},
        "ordered_at",
        moment,
        lambda state, events, clock: Step(
            state=state, output=events["orders"].group_by("ordered_at").agg(orders=pl.len().cast(pl.Int64))
        ),
        Append(moment.append(pa.field("orders", pa.int64()))),
    )
    harness = TestHarness(counted)
    harness.batch({"orders": orders(("a", 0, "tea"), ("b", 0, "jam"), ("a", 9, "tea"))})
    assert sorted(harness.written["moments"].rows()) == [(NOON, 2), (NOON + 9 * MINUTE, 1)]


OF_ORDERS = Input(ORDERS, columns=ORDER, final_at=STEP_DECIDES)
OF_PAYMENTS = Input(PAYMENTS, columns=PAYMENT, final_at=STEP_DECIDES)
NULLABLE = pa.schema([pa.field("card", pa.string()), ORDER.field("ordered_at")])
WHOLE = pa.schema([pa.field("card", pa.int64(), nullable=False), PAYMENT.field("paid_at")])


def reading(payments: Input | None = None, **of_orders: Any) -> dict[str, Input]:
    both = {"orders": replace(OF_ORDERS, **of_orders)}
    return both if payments is None else {**both, "payments": payments}


FAULTS: dict[str, Any] = {
    "it has no inputs": {},
    "give the Stream itself": {"orders": "orders"},
    "input orders: key: there is no column card; there are ordered_at": reading(columns=("ordered_at",)),
    "did you mean card": reading(columns=("crad",)),
    "key column card may be NULL": reading(columns=NULLABLE),
    "key's column card is int64, and string in input orders; a key has one type in all inputs": reading(
        replace(OF_PAYMENTS, columns=WHOLE)
    ),
    "column amount is int64, and string in input orders; give it another name": reading(
        OF_PAYMENTS, columns=ORDER.append(pa.field("amount", pa.string()))
    ),
    "column input has a name that Keyfold needs itself": reading(
        OF_PAYMENTS, columns=ORDER.append(pa.field("input", pa.string()))
    ),
    "event_time item is string": reading(at="item"),
    "say when the result of an event is final.*final_at='ordered_at'": reading(final_at=None),
    "final_at is String": reading(final_at="item"),
    "final_at: there is no column orderd_at; did you mean ordered_at": reading(final_at="orderd_at"),
}


@pytest.mark.parametrize("reason", FAULTS)
def test_inputs_that_do_not_fit_are_refused_where_the_job_is_made(reason):
    with pytest.raises(Misconfigured, match=reason):
        KeyedJob("j", FAULTS[reason], "card", pa.schema([CARD]), first_payments, Append(pa.schema([CARD])))
