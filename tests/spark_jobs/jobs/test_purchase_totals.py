"""The step of purchase totals, without Spark, against a dictionary of sets in plain Python."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from keyfold.testing import merged, play
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTAL, PURCHASE_TOTALS
from tests.spark_jobs.jobs.sales_data import NOON, retail_days, sale, sales_frame
from tests.spark_jobs.jobs.sales_oracle import Totals

LONG_PAST_ALL = NOON + timedelta(days=30)
BOTH = pytest.mark.parametrize("order", ["arrival", "event_time"])


def totals_job(**parameters):
    return build_job(PURCHASE_TOTALS, parameters)


def play_sales(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=()):
    return play(job, [sales_frame(batch).select(PURCHASE_TOTALS.columns.names) for batch in batches], end, cuts=cuts)


def changes(harness):
    return harness.written["purchase_totals"].rows()


def latest(harness, job):
    return merged(harness, job, "latest_purchase_totals").rows()


def as_written(rows):
    """Rows in the columns of the table, in an order of their own."""
    return pl.DataFrame(rows, schema=polars_schema(PURCHASE_TOTAL), orient="row").sort(PURCHASE_TOTAL.names)


def assert_same_changes(harness, expected):
    found = harness.written["purchase_totals"].sort(PURCHASE_TOTAL.names)
    assert found.equals(expected), f"{found}\n{expected}"


WATCHES = [
    sale("Watch", 2, 0, models=["Series 7", "Series 8"]),
    sale("Phone", 1, 1, models=["14"]),
    sale("Watch", 3, 2, models=["Series 8", "Series 6"]),
    sale("Watch", -1, 3),
]


@BOTH
def test_each_purchase_says_what_its_item_has_come_to(order):
    rows = play_sales(totals_job(order=order), [WATCHES]).written["purchase_totals"].filter(item="Watch").rows()
    assert rows == [
        ("Watch", 2, 2, ["Series 7", "Series 8"], NOON),
        ("Watch", 3, 5, ["Series 6", "Series 7", "Series 8"], NOON + timedelta(minutes=2)),
        ("Watch", -1, 4, ["Series 6", "Series 7", "Series 8"], NOON + timedelta(minutes=3)),
    ]


def test_by_arrival_rows_come_out_at_once_and_by_event_time_when_the_watermark_has_passed():
    batch = [sale("cup", 1, 0), sale("cup", 2, 30)]
    assert len(changes(play_sales(totals_job(), [batch], end=None))) == 2
    waits = play_sales(totals_job(order="event_time"), [batch], end=None)
    assert [row[1] for row in changes(waits)] == [1]
    assert waits.state["deadline"].to_list() == [None, NOON + timedelta(minutes=30)]


@BOTH
def test_totals_stay_for_ever_and_without_waiting_purchases_no_timer_does(order):
    state = play_sales(totals_job(order=order), [WATCHES]).state
    assert sorted(state["item"]) == ["Phone", "Watch"]
    assert state["deadline"].is_null().all()


def test_an_order_that_is_none_is_refused():
    with pytest.raises(KeyfoldError, match="order='random'"):
        totals_job(order="random")


def test_a_job_without_an_expiry_keeps_no_column_for_it():
    assert totals_job().state.schema.names == ["item", "quantity", "models", "time", "deadline"]
    with pytest.raises(KeyfoldError, match="timeout_in=processing_time requires expire_after"):
        totals_job(timeout_in="processing_time")


def test_every_purchase_of_the_real_shop_agrees_with_a_dictionary_of_sets(shop):
    """Days follow one another: added up a day at a time or all at once, they come to the same."""
    days, oracle = [day.select(PURCHASE_TOTALS.columns.names) for day in retail_days(shop)], Totals()
    expected = as_written([row for day in days for row in oracle.add(day.to_dicts())])
    for batches, order in ((days, "arrival"), ([pl.concat(days)], "event_time")):
        job = totals_job(order=order)
        harness = play(job, batches, end=datetime(2011, 12, 31, tzinfo=UTC))
        assert_same_changes(harness, expected)
        assert latest(harness, job) == oracle.latest()
        assert harness.state.height == len(oracle.quantity)
