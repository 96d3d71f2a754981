"""The suites of top products: good rows pass all of them, and each fault fails the check that is about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from expectations import latest_top_products, sales_windows, top_products
from spark_jobs.jobs.top_products import LATEST_TOP_PRODUCT, SALES_WINDOW, TOP_PRODUCT
from tests.expectations.failed_checks import failed_checks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def ranked(rank: int, hour: int = 0, **changes: Any) -> dict[str, Any]:
    good = {
        "window_start": NOON + hour * HOUR,
        "window_end": NOON + (hour + 1) * HOUR,
        "rank": rank,
        "product": f"product-{rank}",
        "quantity": 100 - rank,
        "revenue": 250.0,
    }
    return {**good, **changes}


def good_ranks() -> list[dict[str, Any]]:
    tied = ranked(11, quantity=90)
    return [ranked(rank, hour) for hour in range(3) for rank in range(1, 11)] + [tied]


def latest(rank: int, hour: int = 0, is_open: bool | None = False, **changes: Any) -> dict[str, Any]:
    return {**ranked(rank, hour), "is_open": is_open, **changes}


def good_latest() -> list[dict[str, Any]]:
    return [latest(rank, hour, hour == 2) for hour in range(3) for rank in range(1, 11)]


def window(hour: int, **changes: Any) -> dict[str, Any]:
    good = {
        "window_start": NOON + hour * HOUR,
        "window_end": NOON + (hour + 1) * HOUR,
        "n_sales": 40,
        "n_products": 30,
        "quantity": 400,
        "revenue": 900.0,
    }
    return {**good, **changes}


def test_good_rows_pass_each_suite(spark):
    assert failed_checks(spark, good_ranks(), TOP_PRODUCT, top_products.EXPECTATIONS) == set()
    assert failed_checks(spark, good_latest(), LATEST_TOP_PRODUCT, latest_top_products.EXPECTATIONS) == set()
    windows = [window(hour) for hour in range(20)]
    assert failed_checks(spark, windows, SALES_WINDOW, sales_windows.EXPECTATIONS) == set()


@pytest.mark.parametrize(
    ("faults", "checks"),
    [
        ([ranked(11, product=None)], {"product_is_there"}),
        ([ranked(10, product="twin", quantity=90)], {"one_product_a_rank", "no_rank_is_skipped"}),
        ([ranked(11, product="product-3")], {"one_rank_a_product"}),
        ([ranked(12)], {"no_rank_is_skipped"}),
        ([ranked(0)], {"no_rank_is_skipped"}),
        ([ranked(11, quantity=91)], {"ranks_follow_quantities"}),
        ([ranked(11, window_end=NOON)], {"window_ends_after_it_starts"}),
        ([ranked(rank, 9, quantity=1 - rank) for rank in range(1, 6)], {"best_sellers_are_sold"}),
        ([ranked(rank, 9, revenue=-1.0) for rank in range(1, 6)], {"revenue_is_not_negative"}),
        ([ranked(1, 9, quantity=10**7)], {"mean_quantity_is_usual"}),
    ],
)
def test_a_fault_in_the_ranks_fails_the_check_that_is_about_it(spark, faults, checks):
    good = [row for row in good_ranks() if row["rank"] != 11]
    assert failed_checks(spark, [*good, *faults], TOP_PRODUCT, top_products.EXPECTATIONS) == checks


@pytest.mark.parametrize(
    ("faults", "checks"),
    [
        ([latest(1, 9, is_open=None)], {"is_open_is_told"}),
        ([latest(10, product="twin")], {"one_row_a_rank", "no_rank_is_skipped"}),
        ([latest(11, is_open=True)], {"windows_close_as_a_whole"}),
        ([latest(11, product=None)], {"product_is_there"}),
        ([latest(12)], {"no_rank_is_skipped"}),
        ([latest(11, quantity=99)], {"ranks_follow_quantities"}),
        ([latest(1, -200, is_open=True)], {"no_window_stays_open"}),
        ([latest(1, 9, quantity=10**7)], {"mean_quantity_is_usual"}),
    ],
)
def test_a_fault_in_the_latest_ranks_fails_the_check_that_is_about_it(spark, faults, checks):
    assert (
        failed_checks(spark, [*good_latest(), *faults], LATEST_TOP_PRODUCT, latest_top_products.EXPECTATIONS) == checks
    )


@pytest.mark.parametrize(
    ("faults", "checks"),
    [
        ([window(0, window_start=None)], {"window_is_there"}),
        ([window(0)], {"one_row_a_window"}),
        ([window(99, n_sales=0, n_products=0)], {"has_products"}),
        ([window(99, n_products=41)], {"no_more_products_than_sales"}),
        ([window(99, window_end=NOON + 99.5 * HOUR)], {"windows_are_of_one_length"}),
        ([window(90 + one, quantity=-1) for one in range(3)], {"more_is_sold_than_returned"}),
        ([window(90 + one, revenue=-1.0) for one in range(3)], {"revenue_is_not_negative"}),
        ([window(90 + one, n_sales=1, n_products=1) for one in range(2000)], {"mean_number_of_sales_is_usual"}),
    ],
)
def test_a_fault_in_the_windows_fails_the_check_that_is_about_it(spark, faults, checks):
    good = [window(hour) for hour in range(20)]
    assert failed_checks(spark, [*good, *faults], SALES_WINDOW, sales_windows.EXPECTATIONS) == checks


@pytest.mark.parametrize("suite", [top_products, latest_top_products, sales_windows])
def test_severities_are_mixed(suite):
    assert {one["severity"] for one in suite.EXPECTATIONS.values()} == {"critical", "warning", "info"}
