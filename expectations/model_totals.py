"""Expectations on `model_totals`, by check name."""

from expectations.purchase_totals import few_are_negative
from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "model_is_there": critical.not_null(
        "model", "Every total names its model; purchases without a model have the empty text."
    ),
    "one_row_a_model": critical.unique("model", "A model has one total."),
    "quantity_is_there": critical.not_null("quantity", "Every model has a quantity."),
    "a_total_is_of_a_purchase_at_least": critical.between(
        "purchases", "Every total has at least one purchase or return.", min_value=1
    ),
    "latest_is_there": critical.not_null("latest", "Every total has the time of its last purchase or return."),
    "no_more_is_returned_than_bought": few_are_negative("quantity", 0.9),
    "most_purchases_name_a_model": warning.no_rows(
        "SELECT * FROM (SELECT sum(purchases) AS purchases, "
        "sum(CASE WHEN model = '' THEN purchases ELSE 0 END) AS without FROM {batch}) WHERE without * 2 > purchases",
        "Most purchases name a model; otherwise the totals cover few of them.",
    ),
    "mean_quantity_is_usual": info.mean_between("quantity", "The mean total is positive.", min_value=1),
}
