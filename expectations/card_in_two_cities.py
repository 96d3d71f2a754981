"""Expectations on `card_in_two_cities`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "card_is_there": critical.not_null("card", "Every match names its card."),
    "pattern_is_known": critical.in_set("pattern", ["two_cities"], "Every match names the job's only pattern."),
    "a_payment_begins_one_match": critical.unique(
        "first_payment_id", "A payment is the first of at most one match: with the next payment in another city."
    ),
    "there_is_a_second_payment": critical.not_null(
        "last_payment_id", "The payments of a match are two different ones."
    ),
    "cities_differ": critical.never(
        "first_city = last_city OR first_payment_id = last_payment_id",
        "The two payments are in different cities.",
    ),
    "the_second_is_not_before_the_first": critical.at_least(
        "last_time", "first_time", "The first payment is not later than the last."
    ),
    "amounts_are_above_nought": warning.never("NOT (first_amount > 0 AND last_amount > 0)", "Amounts are positive."),
    "few_matches_a_card": info.no_rows(
        "SELECT card, count(*) AS matches FROM {batch} GROUP BY card HAVING count(*) > 20",
        "No card has more than twenty matches; more means that several people or a machine use it.",
    ),
}
