"""Cards in two cities, without Spark: columns and privacy; their rows are those of `test_any_history.py`."""

from datetime import timedelta

import polars as pl

from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.privacy import private_columns
from keyfold.testing import play
from spark_jobs.jobs.card_in_two_cities import CARD_IN_TWO_CITIES
from spark_jobs.streams import PAYMENTS
from tests.shop import NOON
from tests.spark_jobs.jobs.events import payment

JOB = build_job(CARD_IN_TWO_CITIES)
END = NOON + timedelta(days=30)


def frame(payments):
    return pl.DataFrame(payments, schema=polars_schema(PAYMENTS.schema), orient="row").select(JOB.columns.names)


def test_a_card_in_two_cities_is_told_with_both_payments():
    payments = [payment(0, "a", 0, "Ulm"), payment(1, "a", 10, "Trier"), payment(2, "b", 5, "Trier")]
    (row,) = play(JOB, [frame(payments)], END).written["card_in_two_cities"].to_dicts()
    assert row == {
        "card": "a", "pattern": "two_cities",
        "first_time": NOON, "last_time": NOON + timedelta(minutes=10),
        "first_city": "Ulm", "last_city": "Trier", "first_amount": 1.0, "last_amount": 2.0,
        "first_merchant": None, "last_merchant": None, "first_payment_id": "p0", "last_payment_id": "p1",
    }  # fmt: skip


def test_the_card_is_private_wherever_it_stands_and_nothing_else_is():
    private = {table.name: private_columns([PAYMENTS], table.schema) for table in JOB.tables}
    assert private == {"card_in_two_cities": {"card"}, "late.card_in_two_cities": {"card"}}
