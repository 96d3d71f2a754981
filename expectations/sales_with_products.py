"""What holds for `sales_with_products`, by check name."""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "item_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "item"},
        "severity": "critical",
        "description": "Every row names its item.",
    },
    "category_comes_with_a_product": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE product_name IS NULL AND (category IS NOT NULL OR list_price IS NOT NULL)"
        },
        "severity": "critical",
        "description": "A row of the table of products has a name; without one nobody can tell it from an unknown product.",
    },
    "most_products_are_known": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "product_name", "mostly": 0.95},
        "severity": "warning",
        "description": "Nineteen sales of twenty are of items that the table of products has; fewer means that it is out of date.",
    },
    "list_price_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "list_price", "min_value": 0},
        "severity": "warning",
        "description": "Nobody is paid to take a product.",
    },
    "all_products_are_known": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "product_name"},
        "severity": "info",
        "description": "Every item that is sold is in the table of products.",
    },
}
