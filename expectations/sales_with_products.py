"""Expectations on `sales_with_products`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "item_is_there": critical.not_null("item", "Every row names its item."),
    "category_comes_with_a_product": critical.never(
        "product_name IS NULL AND (category IS NOT NULL OR list_price IS NOT NULL)",
        "Every product in the table of products has a name; without one, it looks like an unknown product.",
    ),
    "most_products_are_known": warning.not_null(
        "product_name",
        "At least 95 % of the sales are of items in the table of products; fewer means that the table is out of date.",
        mostly=0.95,
    ),
    "list_price_is_not_negative": warning.between("list_price", "List prices are not negative.", min_value=0),
    "all_products_are_known": info.not_null("product_name", "All items sold are in the table of products."),
}
