"""The suites of the shop's sales: each fault beside good rows fails the check that is about it alone."""

from datetime import timedelta

from expectations import (
    latest_purchase_totals,
    latest_top_products,
    model_totals,
    purchase_totals,
    sales_windows,
    sales_with_products,
    top_products,
)
from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.model_totals import MODEL_TOTAL
from spark_jobs.jobs.purchase_totals import LATEST_PURCHASE_TOTAL, PURCHASE_TOTAL
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.top_products import LATEST_TOP_PRODUCT, SALES_WINDOW, TOP_PRODUCT
from tests.expectations.faults import case, check_case, each, told
from tests.shop import HOUR, NOON

SALE = build_job(JOBS["sales_with_products"]).main.schema


def model(name, **changes):
    return {"model": name, "quantity": 10, "purchases": 4, "latest": NOON, **changes}


def purchase(number, item: str | None = "cup", **changes):
    """The so-many-th purchase of two pieces."""
    good = {"item": item, "delta_quantity": 2, "cumulative_quantity": 2 * (number + 1), "models": ["a", "b"]}
    return {**good, "event_time": NOON + timedelta(minutes=number), **changes}


def total(number, **changes):
    return {"item": f"item-{number}", "quantity": 10, "models": ["a"], **changes}


def sale(**changes):
    return {"item": "tea", "product_name": "Tea", "category": "Drinks", "list_price": 3.0, **changes}


def ranked(rank, hour=0, **changes):
    times = {"window_start": NOON + hour * HOUR, "window_end": NOON + (hour + 1) * HOUR}
    return {**times, "rank": rank, "product": f"product-{rank}", "quantity": 100 - rank, "revenue": 250.0, **changes}


def latest(rank, hour=0, is_open: bool | None = False, **changes):
    return {**ranked(rank, hour), "is_open": is_open, **changes}


def window(hour, **changes):
    times = {"window_start": NOON + hour * HOUR, "window_end": NOON + (hour + 1) * HOUR}
    return {**times, "n_sales": 40, "n_products": 30, "quantity": 400, "revenue": 900.0, **changes}


MODELS = [model(""), *(model(f"model {number}") for number in range(20))]
CHANGES = [*(purchase(number, item) for item in ("cup", "hat") for number in range(20)), purchase(0, "pot", models=[])]
TOTALS = [total(number) for number in range(20)]
RANKS = [ranked(rank, hour) for hour in range(8) for rank in range(1, 11)]
LATEST = [latest(rank, hour) for hour in range(5) for rank in range(1, 11)]
WINDOWS = [window(hour) for hour in range(20)]
UNKNOWN = sale(product_name=None, category=None, list_price=None)


def returns(make, count, **changes):
    return [make(90 + one, **changes) for one in range(count)]


@each({
    "model_totals": case(model_totals, MODEL_TOTAL, MODELS, {
        "model_is_there": model(None),
        "one_row_a_model": [2, model("model 0")],
        "quantity_is_there": model("a", quantity=None),
        "a_total_is_of_a_purchase_at_least": model("b", purchases=0),
        "latest_is_there": model("c", latest=None),
    }),
    "models that are returned": told(
        model_totals, MODEL_TOTAL, [*MODELS, *(model(f"new {one}", quantity=-1) for one in range(3)), model("new", quantity=-(10**6))],
        "no_more_is_returned_than_bought", "mean_quantity_is_usual",
    ),
    "a shop that names no models": told(
        model_totals, MODEL_TOTAL, [model("", purchases=81), *MODELS[1:]], "most_purchases_name_a_model"
    ),
    "purchase_totals": case(purchase_totals, PURCHASE_TOTAL, CHANGES, {
        "item_is_there": purchase(0, None),
        "event_time_is_there": purchase(0, "a", event_time=None),
        "totals_add_up": [2, purchase(1, "b"), purchase(0, "c"), purchase(0, "c")],
        "models_are_a_sorted_set": [
            purchase(0, "d", models=None), purchase(0, "e", models=["b", "a"]),
            purchase(0, "f", models=["a", "a"]), purchase(0, "g", models=["", "a"]),
        ],
        "delta_is_not_nought": purchase(0, "h", delta_quantity=0, cumulative_quantity=0),
    }),
    "changes that are unusual as a whole": told(
        purchase_totals, PURCHASE_TOTAL,
        [
            *CHANGES[:-1], purchase(0, "pot", delta_quantity=-(10**6), cumulative_quantity=-(10**6)),
            *(purchase(0, f"pot-{one}", delta_quantity=-1, cumulative_quantity=-1) for one in range(5)),
        ],
        "delta_is_plausible", "mean_delta_is_usual", "no_more_is_returned_than_bought",
    ),
    "latest_purchase_totals": case(latest_purchase_totals, LATEST_PURCHASE_TOTAL, [*TOTALS, total(99, models=[], quantity=0)], {
        "item_is_there": total(50, item=None),
        "one_row_an_item": [2, total(0)],
        "quantity_is_there": total(51, quantity=None),
        "models_are_a_sorted_set": total(52, models=["b", "a"]),
        "an_item_has_few_models": total(53, models=sorted(map(str, range(101)))),
    }),
    "totals that are unusual as a whole": told(
        latest_purchase_totals, LATEST_PURCHASE_TOTAL,
        [*TOTALS, *returns(total, 3, quantity=-1), total(99, quantity=-(10**6))],
        "no_more_is_returned_than_bought", "mean_quantity_is_usual",
    ),
    "top_products": case(top_products, TOP_PRODUCT, [*RANKS, ranked(11, 7, quantity=90)], {
        "product_is_there": ranked(11, 0, product=None),
        "one_product_a_rank": [2, ranked(10, 1, product="twin", quantity=90)],
        "one_rank_a_product": [2, ranked(11, 2, product="product-3")],
        "no_rank_is_skipped": [3, ranked(12, 3), ranked(0, 4)],  # the windows of the twin, of 12 and of 0
        "ranks_follow_quantities": ranked(11, 5, quantity=91),
        "window_ends_after_it_starts": ranked(11, 6, window_end=NOON),
    }),
    "ranks that are unusual as a whole": told(
        top_products, TOP_PRODUCT,
        [
            *RANKS[:30], *(ranked(rank, 9, quantity=1 - rank) for rank in range(1, 6)),
            *(ranked(rank, 10, revenue=-1.0) for rank in range(1, 6)), ranked(1, 11, quantity=10**7),
        ],
        "best_sellers_are_sold", "revenue_is_not_negative", "mean_quantity_is_usual",
    ),
    "latest_top_products": case(latest_top_products, LATEST_TOP_PRODUCT, LATEST, {
        "is_open_is_told": latest(1, 9, is_open=None),
        "one_row_a_rank": [2, latest(10, 0, product="twin")],
        "windows_close_as_a_whole": latest(11, 1, is_open=True),
        "product_is_there": latest(11, 2, product=None),
        "no_rank_is_skipped": [2, latest(12, 3)],  # the windows of the twin and of 12
        "ranks_follow_quantities": latest(11, 4, quantity=99),
        "no_window_stays_open": latest(1, -200, is_open=True),
    }),
    "latest ranks that are unusual in the mean": told(
        latest_top_products, LATEST_TOP_PRODUCT,
        [*(latest(rank, hour, hour == 2) for hour in range(3) for rank in range(1, 11)), latest(1, 9, quantity=10**7)],
        "mean_quantity_is_usual",
    ),
    "sales_windows": case(sales_windows, SALES_WINDOW, WINDOWS, {
        "window_is_there": window(50, window_start=None),
        "one_row_a_window": [2, window(0)],
        "has_products": window(97, n_sales=0, n_products=0),
        "no_more_products_than_sales": window(98, n_products=41),
        "windows_are_of_one_length": window(99, window_end=NOON + 99.5 * HOUR),
    }),
    "windows that are unusual as a whole": case(sales_windows, SALES_WINDOW, WINDOWS, {
        "more_is_sold_than_returned": returns(window, 3, quantity=-1),
        "revenue_is_not_negative": [window(95 + one, revenue=-1.0) for one in range(3)],
    }),
    "windows of few sales": told(
        sales_windows, SALES_WINDOW, [*WINDOWS, *returns(window, 2000, n_sales=1, n_products=1)],
        "mean_number_of_sales_is_usual",
    ),
    # One sale in twenty may be of an item that nobody has entered yet; that some are is told.
    "sales_with_products": case(sales_with_products, SALE, [sale()] * 100, {
        "item_is_there": sale(item=None),
        "category_comes_with_a_product": sale(product_name=None),
        "list_price_is_not_negative": sale(list_price=-1.0),
        "all_products_are_known": [1],  # the second
    }),
    "an unknown product": case(sales_with_products, SALE, [sale()] * 100, {"all_products_are_known": UNKNOWN}),
    "many unknown products": told(
        sales_with_products, SALE, [*[sale()] * 10, UNKNOWN], "most_products_are_known", "all_products_are_known"
    ),
})  # fmt: skip
def test_each_fault_is_found_by_the_check_that_is_about_it(one):
    check_case(one)
