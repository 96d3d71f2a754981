"""The step of purchase totals, without Spark, against a dictionary of sets in plain Python."""

from datetime import datetime, timedelta

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from keyfold.testing import play
from spark_jobs.jobs.purchase_totals import PURCHASE_TOTALS
from tests.spark_jobs.jobs.sales_data import NOON, sale, sales_frame

LONG_PAST_ALL = NOON + timedelta(days=30)
BOTH = pytest.mark.parametrize("order", ["arrival", "event_time"])


def totals_job(**parameters):
    return build_job(PURCHASE_TOTALS, parameters)


def play_sales(job, batches, end: datetime | None = LONG_PAST_ALL, cuts=()):
    return play(job, [sales_frame(batch).select(PURCHASE_TOTALS.columns.names) for batch in batches], end, cuts=cuts)


def changes(harness):
    return harness.written["purchase_totals"].rows()


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
