"""Expectations on `latest_purchase_totals`, by check name."""

from expectations import purchase_totals
from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "item_is_there": critical.not_null("item", "Every total names its item."),
    "one_row_an_item": critical.unique("item", "An item has one total."),
    "quantity_is_there": critical.not_null("quantity", "Every item has a total."),
    "models_are_a_sorted_set": purchase_totals.EXPECTATIONS["models_are_a_sorted_set"],
    "no_more_is_returned_than_bought": warning.between(
        "quantity", "At least 90 % of the totals are not negative.", min_value=0, mostly=0.9
    ),
    "an_item_has_few_models": warning.never(
        "array_length(models) > 100",
        "No item has more than 100 models; more means that models are free text, which makes rows and state large.",
    ),
    "mean_quantity_is_usual": info.mean_between("quantity", "The mean total is positive.", min_value=1),
}
