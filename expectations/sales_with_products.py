"""What holds for `sales_with_products`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "item_is_there": critical.not_null("item", "Every row names its item."),
    "category_comes_with_a_product": critical.never(
        "product_name IS NULL AND (category IS NOT NULL OR list_price IS NOT NULL)",
        "A row of the table of products has a name; without one nobody can tell it from an unknown product.",
    ),
    "most_products_are_known": warning.not_null(
        "product_name",
        "Nineteen sales of twenty are of items that the table of products has; fewer means that it is out of date.",
        mostly=0.95,
    ),
    "list_price_is_not_negative": warning.between("list_price", "Nobody is paid to take a product.", min_value=0),
    "all_products_are_known": info.not_null("product_name", "Every item that is sold is in the table of products."),
}
