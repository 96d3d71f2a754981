"""What holds for `sales_with_products`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "item_is_there": critical("expect_column_values_to_not_be_null", "Every row names its item.", column="item"),
    "category_comes_with_a_product": critical(
        "unexpected_rows_expectation",
        "A row of the table of products has a name; without one nobody can tell it from an unknown product.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE product_name IS NULL AND (category IS NOT NULL OR list_price IS NOT NULL)",
    ),
    "most_products_are_known": warning(
        "expect_column_values_to_not_be_null",
        "Nineteen sales of twenty are of items that the table of products has; fewer means that it is out of date.",
        column="product_name",
        mostly=0.95,
    ),
    "list_price_is_not_negative": warning(
        "expect_column_values_to_be_between", "Nobody is paid to take a product.", column="list_price", min_value=0
    ),
    "all_products_are_known": info(
        "expect_column_values_to_not_be_null",
        "Every item that is sold is in the table of products.",
        column="product_name",
    ),
}
