"""What holds for `card_in_two_cities`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "card_is_there": critical("expect_column_values_to_not_be_null", "Every match names its card.", column="card"),
    "pattern_is_known": critical(
        "expect_column_values_to_be_in_set",
        "The job looks for one pattern.",
        column="pattern",
        value_set=["two_cities"],
    ),
    "a_payment_begins_one_match": critical(
        "expect_column_values_to_be_unique",
        "Every payment has one answer: the first after it in another city.",
        column="first_payment_id",
    ),
    "there_is_a_second_payment": critical(
        "expect_column_values_to_not_be_null", "A match is of two payments.", column="last_payment_id"
    ),
    "cities_differ": critical(
        "unexpected_rows_expectation",
        "The two payments are in different cities.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE first_city = last_city OR first_payment_id = last_payment_id",
    ),
    "the_second_is_not_before_the_first": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "Payments are told in order of time.",
        column_A="last_time",
        column_B="first_time",
        or_equal=True,
    ),
    "amounts_are_above_nought": warning(
        "unexpected_rows_expectation",
        "Payments are of some amount.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE NOT (first_amount > 0 AND last_amount > 0)",
    ),
    "few_matches_a_card": info(
        "unexpected_rows_expectation",
        "A card with more than twenty matches is shared by people, or is a machine's.",
        unexpected_rows_query="SELECT card, count(*) AS matches FROM {batch} GROUP BY card HAVING count(*) > 20",
    ),
}
