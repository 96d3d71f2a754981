"""The suites of top products: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations import latest_top_products, sales_windows, top_products
from spark_jobs.jobs.top_products import LATEST_TOP_PRODUCT, SALES_WINDOW, TOP_PRODUCT
from tests.expectations.failed_checks import rows_found

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
    return [ranked(rank, hour) for hour in range(3) for rank in range(1, 11)]


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


def test_each_fault_in_the_ranks_is_found_by_the_check_that_is_about_it():
    faults = [
        ranked(11, 0, product=None),
        ranked(10, 1, product="twin", quantity=90),
        ranked(11, 2, product="product-3"),
        ranked(12, 3),
        ranked(0, 4),
        ranked(11, 5, quantity=91),
        ranked(11, 6, window_end=NOON),
    ]
    tied = ranked(11, 7, quantity=90)
    good = [ranked(rank, hour) for hour in range(8) for rank in range(1, 11)]
    assert rows_found([*good, tied, *faults], TOP_PRODUCT, top_products.EXPECTATIONS) == {
        "product_is_there": 1,
        "one_product_a_rank": 2,
        "one_rank_a_product": 2,
        "no_rank_is_skipped": 3,  # the windows of the twin, of 12 and of 0
        "ranks_follow_quantities": 1,
        "window_ends_after_it_starts": 1,
    }


def test_each_fault_in_the_latest_ranks_is_found_by_the_check_that_is_about_it():
    faults = [
        latest(1, 9, is_open=None),
        latest(10, 0, product="twin"),
        latest(11, 1, is_open=True),
        latest(11, 2, product=None),
        latest(12, 3),
        latest(11, 4, quantity=99),
        latest(1, -200, is_open=True),
    ]
    good = [latest(rank, hour) for hour in range(5) for rank in range(1, 11)]
    assert rows_found([*good, *faults], LATEST_TOP_PRODUCT, latest_top_products.EXPECTATIONS) == {
        "is_open_is_told": 1,
        "one_row_a_rank": 2,
        "windows_close_as_a_whole": 1,
        "product_is_there": 1,
        "no_rank_is_skipped": 2,  # the windows of the twin and of 12
        "ranks_follow_quantities": 1,
        "no_window_stays_open": 1,
    }


def test_each_fault_in_the_windows_is_found_by_the_check_that_is_about_it():
    faults = [
        window(50, window_start=None),
        window(0),
        window(97, n_sales=0, n_products=0),
        window(98, n_products=41),
        window(99, window_end=NOON + 99.5 * HOUR),
    ]
    rows = [*(window(hour) for hour in range(20)), *faults]
    assert rows_found(rows, SALES_WINDOW, sales_windows.EXPECTATIONS) == {
        "window_is_there": 1,
        "one_row_a_window": 2,
        "has_products": 1,
        "no_more_products_than_sales": 1,
        "windows_are_of_one_length": 1,
    }


def test_what_is_unusual_as_a_whole_is_told():
    returned = [ranked(rank, 9, quantity=1 - rank) for rank in range(1, 6)]
    lost = [ranked(rank, 10, revenue=-1.0) for rank in range(1, 6)]
    rows = [*good_ranks(), *returned, *lost, ranked(1, 11, quantity=10**7)]
    assert rows_found(rows, TOP_PRODUCT, top_products.EXPECTATIONS).keys() == {
        "best_sellers_are_sold",
        "revenue_is_not_negative",
        "mean_quantity_is_usual",
    }
    rows = [*good_latest(), latest(1, 9, quantity=10**7)]
    told = rows_found(rows, LATEST_TOP_PRODUCT, latest_top_products.EXPECTATIONS)
    assert told.keys() == {"mean_quantity_is_usual"}


def test_windows_that_are_unusual_as_a_whole_are_told():
    good = [window(hour) for hour in range(20)]
    returned = [window(90 + one, quantity=-1) for one in range(3)]
    lost = [window(95 + one, revenue=-1.0) for one in range(3)]
    assert rows_found([*good, *returned, *lost], SALES_WINDOW, sales_windows.EXPECTATIONS) == {
        "more_is_sold_than_returned": 3,
        "revenue_is_not_negative": 3,
    }
    few = [window(90 + one, n_sales=1, n_products=1) for one in range(2000)]
    told = rows_found([*good, *few], SALES_WINDOW, sales_windows.EXPECTATIONS)
    assert told.keys() == {"mean_number_of_sales_is_usual"}
