"""Top products, without Spark: exact revenue; their rows are those of `test_any_history.py`."""

import math
from datetime import datetime, timedelta

from polars.testing import assert_frame_equal

from keyfold.keyed.calling.harness import in_one_frame
from keyfold.keyed.job.building import build_job
from keyfold.testing import combined, play
from spark_jobs.jobs.top_products import TOP_PRODUCTS
from tests.shop import HOUR, NOON
from tests.spark_jobs.jobs.sales_data import sale, sales_frame, with_window

LONG_PAST_ALL = NOON + timedelta(days=30)


def top_job(**parameters):
    return build_job(TOP_PRODUCTS, parameters)


def window_frame(sales, window=HOUR):
    return with_window(sales_frame(sales), window)


def play_sales(job, batches, end: datetime | None = LONG_PAST_ALL, window=HOUR, parts=1, cuts=()):
    return play(job, [window_frame(batch, window) for batch in batches], end, parts, cuts)


def ranked(harness):
    rows = harness.written["top_products"]
    return rows.sort("window_start", "rank").rows()


def test_prices_become_exact_revenue_and_those_that_cannot_none():
    prices = [None, math.nan, math.inf, 1e9, -1e9, 999_999_999.0, 0.1, 1e-9, 2.675]
    sales = sales_frame([sale("cup", 3, minutes, price=price) for minutes, price in enumerate(prices)])
    job = top_job()
    assert_frame_equal(in_one_frame(job, sales), with_window(sales))


def test_quantities_and_prices_at_their_limits_do_not_overflow():
    harness = play_sales(top_job(), [[sale("cup", 2**63 - 1, price=999_999_999.0), sale("hat", -(2**63), price=1.0)]])
    assert [row[5] for row in ranked(harness)] == [float((2**63 - 1) * 999_999_999), float(-(2**63))]


def test_the_combiner_loses_no_sale_and_combines_its_own_results():
    job = top_job()
    sales = window_frame([sale(item, 1, minutes, price=0.7) for item in ("cup", "hat") for minutes in range(120)])
    once, twice = combined(job, sales, 1), combined(job, combined(job, sales, 7), 1)
    assert once.height == 4
    assert once.sort("item", "time").equals(twice.select(once.columns).sort("item", "time"))
    assert once["time"].max() == sales["time"].max()
