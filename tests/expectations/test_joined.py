"""The suites of rides with weather and of sales with products: each fault beside good rows fails the check that is about it alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

from expectations import ride_weather, sales_with_products
from keyfold.keyed.job.parameters import build_job
from spark_jobs.jobs.registry import JOBS
from tests.expectations.failed_checks import rows_found

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ride(number: int, **changes: Any) -> dict[str, Any]:
    good = {"station_id": "JFK", "ride_id": f"ride-{number}", "start_time": NOON, "time": NOON, "temp": 50.0}
    return {**good, **changes}


def sale(**changes: Any) -> dict[str, Any]:
    return {"item": "tea", "product_name": "Tea", "category": "Drinks", "list_price": 3.0, **changes}


def test_rides_with_weather():
    good = [ride(number) for number in range(100)]
    # A station of Death Valley, and a ride far from all stations.
    good += [ride(200, temp=134.0), ride(201, station_id="", time=None, temp=None)]
    faults = [
        ride(300, ride_id=None),
        ride(0),
        ride(301, time=NOON + timedelta(seconds=1)),
        ride(302, station_id=""),
        ride(303, temp=200.0),
    ]
    schema = build_job(JOBS["ride_weather"]).output
    assert rows_found([*good, *faults], schema, ride_weather.EXPECTATIONS) == {
        "ride_id_is_there": 1,
        "one_row_a_ride": 2,
        "reading_is_not_of_later": 1,
        "only_rides_near_a_station_have_a_reading": 1,
        "temp_is_plausible": 1,
    }
    silent = [ride(number, time=None, temp=None) for number in range(400, 405)]
    assert rows_found([*good[:5], *silent], schema, ride_weather.EXPECTATIONS) == {"most_rides_have_weather": 5}


def test_sales_with_products():
    good, unknown = [sale()] * 100, sale(product_name=None, category=None, list_price=None)
    faults = [sale(item=None), sale(product_name=None), sale(list_price=-1.0)]
    schema = build_job(JOBS["sales_with_products"]).output
    suite = sales_with_products.EXPECTATIONS
    # One sale in twenty may be of an item that nobody has entered yet; that some are is told.
    assert rows_found([*good, unknown], schema, suite) == {"all_products_are_known": 1}
    assert rows_found([*good, *faults], schema, suite) == {
        "item_is_there": 1,
        "category_comes_with_a_product": 1,
        "list_price_is_not_negative": 1,
        "all_products_are_known": 1,
    }
    assert rows_found([*good[:10], unknown], schema, suite).keys() == {
        "most_products_are_known",
        "all_products_are_known",
    }
