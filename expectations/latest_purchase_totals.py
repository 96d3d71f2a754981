"""What holds for `latest_purchase_totals`, by check name."""

from expectations import purchase_totals
from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "item_is_there": critical.not_null("item", "Every total names its item."),
    "one_row_an_item": critical.unique("item", "An item has one total."),
    "quantity_is_there": critical.not_null("quantity", "Every item has a total."),
    "models_are_a_sorted_set": purchase_totals.EXPECTATIONS["models_are_a_sorted_set"],
    "no_more_is_returned_than_bought": warning.between(
        "quantity", "Nine totals of ten are not below zero.", min_value=0, mostly=0.9
    ),
    "an_item_has_few_models": warning.never(
        "size(models) > 100",
        "No item has more than a hundred models: free text would make each row of it long, and state too.",
    ),
    "mean_quantity_is_usual": info.mean_between("quantity", "Items sell at all, on average.", min_value=1),
}
