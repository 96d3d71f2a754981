"""What holds for `model_totals`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "model_is_there": critical.not_null(
        "model", "Every total is of a model; that of purchases without one has the empty text."
    ),
    "one_row_a_model": critical.unique("model", "A model has one total."),
    "quantity_is_there": critical.not_null("quantity", "Every model has a quantity."),
    "a_total_is_of_a_purchase_at_least": critical.between(
        "purchases", "A total is there because somebody bought or returned the model.", min_value=1
    ),
    "latest_is_there": critical.not_null("latest", "Every model was bought or returned at a time."),
    "no_more_is_returned_than_bought": warning.between(
        "quantity",
        "Nine totals of ten are not below zero; more mean returns of what was bought before the data begins.",
        min_value=0,
        mostly=0.9,
    ),
    "most_purchases_name_a_model": warning.no_rows(
        "SELECT * FROM (SELECT sum(purchases) AS purchases, "
        "sum(CASE WHEN model = '' THEN purchases ELSE 0 END) AS without FROM {batch}) WHERE without * 2 > purchases",
        "Most purchases name a model: else these totals tell of few of them.",
    ),
    "mean_quantity_is_usual": info.mean_between("quantity", "Models sell at all, on average.", min_value=1),
}
