"""Expectations on `purchase_totals`, by check name."""

from keyfold.suite import Expectation, Suite, critical, info, warning


def few_are_negative(total: str, mostly: float) -> Expectation:
    """Expect that most totals are not negative."""
    share = f"{100 * mostly:.0f} %"
    what = (
        f"At least {share} of the totals are not negative; fewer means returns of items bought before the data begins."
    )
    return warning.between(total, what, min_value=0, mostly=mostly)


EXPECTATIONS: Suite = {
    "item_is_there": critical.not_null("item", "Every purchase names its item."),
    "event_time_is_there": critical.not_null("event_time", "Every purchase has its time."),
    "totals_add_up": critical.no_rows(
        "SELECT item, sum(delta_quantity) AS total FROM {batch} GROUP BY item "
        "HAVING NOT array_contains(array_agg(cumulative_quantity), sum(delta_quantity))",
        "The quantities of an item add up to its cumulative quantity: no purchase is lost or counted twice.",
    ),
    "models_are_a_sorted_set": critical.no_rows(
        "SELECT model, before FROM (SELECT *, lag(model) OVER (PARTITION BY place ORDER BY at) AS before FROM "
        "(SELECT *, row_number() OVER () AS at FROM (SELECT place, untold, unnest(models) AS model FROM "
        "(SELECT models, models IS NULL AS untold, row_number() OVER () AS place FROM {batch})))) "
        "WHERE untold OR model = '' OR model <= before",
        "Models are not null, sorted, unique and not empty.",
    ),
    "delta_is_not_nought": warning(
        "expect_column_values_to_not_be_in_set",
        "The quantity of a purchase is not zero.",
        column="delta_quantity",
        value_set=[0],
    ),
    "delta_is_plausible": warning.between(
        "delta_quantity",
        "No purchase or return has more than 100,000 pieces.",
        min_value=-100_000,
        max_value=100_000,
    ),
    "no_more_is_returned_than_bought": few_are_negative("cumulative_quantity", 0.95),
    "mean_delta_is_usual": info.mean_between(
        "delta_quantity", "Purchases have at most 1,000 pieces on average.", min_value=0, max_value=1000
    ),
}
