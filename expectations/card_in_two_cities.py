"""What holds for `card_in_two_cities`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "card_is_there": critical.not_null("card", "Every match names its card."),
    "pattern_is_known": critical.in_set("pattern", ["two_cities"], "The job looks for one pattern."),
    "a_payment_begins_one_match": critical.unique(
        "first_payment_id", "Every payment has one answer: the first after it in another city."
    ),
    "there_is_a_second_payment": critical.not_null("last_payment_id", "A match is of two payments."),
    "cities_differ": critical.never(
        "first_city = last_city OR first_payment_id = last_payment_id",
        "The two payments are in different cities.",
    ),
    "the_second_is_not_before_the_first": critical.at_least(
        "last_time", "first_time", "Payments are told in order of time."
    ),
    "amounts_are_above_nought": warning.never(
        "NOT (first_amount > 0 AND last_amount > 0)", "Payments are of some amount."
    ),
    "few_matches_a_card": info.no_rows(
        "SELECT card, count(*) AS matches FROM {batch} GROUP BY card HAVING count(*) > 20",
        "A card with more than twenty matches is shared by people, or is a machine's.",
    ),
}
