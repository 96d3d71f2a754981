"""What holds for `card_in_two_cities`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "card_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "card"},
        "severity": "critical",
        "description": "Every match names its card.",
    },
    "pattern_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "pattern", "value_set": ["two_cities"]},
        "severity": "critical",
        "description": "The job looks for one pattern.",
    },
    "a_payment_begins_one_match": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "first_payment_id"},
        "severity": "critical",
        "description": "Every payment has one answer: the first after it in another city.",
    },
    "there_is_a_second_payment": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "last_payment_id"},
        "severity": "critical",
        "description": "A match is of two payments.",
    },
    "cities_differ": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE first_city = last_city OR first_payment_id = last_payment_id"
        },
        "severity": "critical",
        "description": "The two payments are in different cities.",
    },
    "the_second_is_not_before_the_first": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "last_time", "column_B": "first_time", "or_equal": True},
        "severity": "critical",
        "description": "Payments are told in order of time.",
    },
    "amounts_are_above_nought": {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE NOT (first_amount > 0 AND last_amount > 0)"},
        "severity": "warning",
        "description": "Payments are of some amount.",
    },
    "few_matches_a_card": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT card, count(*) AS matches FROM {batch} GROUP BY card HAVING count(*) > 20"
        },
        "severity": "info",
        "description": "A card with more than twenty matches is shared by people, or is a machine's.",
    },
}
