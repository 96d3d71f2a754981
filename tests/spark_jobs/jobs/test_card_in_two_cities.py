"""Cards in two cities, without Spark: against plain Python, and scored on planted fraud."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.job.parameters import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.privacy import private_columns
from keyfold.testing import play
from keyfold.times import micros
from spark_jobs.jobs.card_in_two_cities import CARD_IN_TWO_CITIES
from spark_jobs.simulation.contract import HOUR
from spark_jobs.simulation.fraud_score import score_fraud
from spark_jobs.simulation.payments import payments_table
from spark_jobs.streams import PAYMENTS
from tests.examples import examples
from tests.on_a_grid import many_of, on_grid
from tests.spark_jobs.jobs.sales_data import NOON

JOB = build_job(CARD_IN_TWO_CITIES)
END = NOON + timedelta(days=30)


def payment(number, card, minutes, city):
    return {"card": card, "time": NOON + timedelta(minutes=minutes), "city": city, "amount": 1.0 + number,
            "merchant": None, "payment_id": f"p{number}"}  # fmt: skip


def frame(payments):
    return pl.DataFrame(payments, schema=polars_schema(PAYMENTS.schema), orient="row").select(JOB.events.names)


def pairs(harness):
    return sorted(harness.written["card_in_two_cities"].select("first_payment_id", "last_payment_id").rows())


def test_a_card_in_two_cities_is_told_with_both_payments():
    payments = [payment(0, "a", 0, "Ulm"), payment(1, "a", 10, "Trier"), payment(2, "b", 5, "Trier")]
    (row,) = play(JOB, [frame(payments)], END).written["card_in_two_cities"].to_dicts()
    assert row == {
        "card": "a", "pattern": "two_cities",
        "first_time": NOON, "last_time": NOON + timedelta(minutes=10),
        "first_city": "Ulm", "last_city": "Trier", "first_amount": 1.0, "last_amount": 2.0,
        "first_merchant": None, "last_merchant": None, "first_payment_id": "p0", "last_payment_id": "p1",
    }  # fmt: skip


PAYMENTS_MADE = many_of(
    st.tuples(st.sampled_from("ab"), on_grid(30, 5), st.sampled_from(["Ulm", "Trier", "Mainz"])), 14, 0
).map(lambda made: [payment(number, *one) for number, one in enumerate(made)])


@examples(100)
@given(PAYMENTS_MADE, st.randoms(use_true_random=False))
def test_matches_are_those_that_two_loops_find_whatever_the_order(payments, random):
    expected = []
    ordered = sorted(payments, key=lambda one: (one["time"], one["city"], one["amount"]))
    for at, first in enumerate(ordered):
        for last in ordered[at + 1 :]:
            soon = last["time"] - first["time"] <= timedelta(minutes=10)
            if last["card"] == first["card"] and last["city"] != first["city"] and soon:
                expected.append((first["payment_id"], last["payment_id"]))
                break
    shuffled = random.sample(payments, len(payments))
    assert pairs(play(JOB, [frame(shuffled)] if shuffled else [], END)) == sorted(expected)


@pytest.mark.parametrize("seed", range(3))
def test_all_planted_fraud_is_found_and_what_is_false_is_across_a_bridge_or_online(seed):
    begin = micros(NOON)
    table, planted = payments_table(np.random.default_rng(seed), 500, begin, begin + 48 * HOUR)
    matches = play(JOB, [table.select(JOB.events.names)], END).written["card_in_two_cities"]
    fraud = table[planted]["payment_id"]
    score = score_fraud(matches, set(fraud))
    assert (score.planted, score.found) == (20, 20)
    # Honest: counted one by one in plain Python, from payments without the planted ones and those with them.
    false = 0
    for row in matches.iter_rows(named=True):
        if {row["first_payment_id"], row["last_payment_id"]} & set(fraud):
            continue
        false += 1
        online = "online shop" in (row["first_merchant"], row["last_merchant"])
        bridge = frozenset((row["first_city"], row["last_city"]))
        assert online or bridge in ({"Mannheim", "Ludwigshafen"}, {"Mainz", "Wiesbaden"}, {"Ulm", "Neu-Ulm"})
    assert score.false == false > 0
    assert score.matches == matches.height


def test_the_card_is_private_wherever_it_stands_and_nothing_else_is():
    private = {table.name: private_columns([PAYMENTS], table.schema) for table in JOB.tables}
    assert private == {
        "card_in_two_cities": {"card"}, "card_in_two_cities_checked": {"card"}, "late.card_in_two_cities": {"card"},
    }  # fmt: skip
