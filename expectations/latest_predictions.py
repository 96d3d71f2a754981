"""What holds for `latest_predictions`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "key_is_there": critical("expect_column_values_to_not_be_null", "Every prediction names its series.", column="key"),
    "one_row_a_key": critical("expect_column_values_to_be_unique", "A series has one last prediction.", column="key"),
    "score_is_from_0_to_1": critical(
        "expect_column_values_to_be_between",
        "Scores lie between 0 (as expected) and 1.",
        column="score",
        min_value=0,
        max_value=1,
    ),
    "label_is_known": critical(
        "expect_column_values_to_be_in_set",
        "A prediction says normal or anomalous.",
        column="label",
        value_set=["normal", "anomalous"],
    ),
    "band_holds_what_is_expected": critical(
        "unexpected_rows_expectation",
        "The band of usual values has the expected one in it.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE expected < low OR expected > high OR (expected IS NOT NULL AND low > high)",
    ),
    "most_series_are_normal": warning(
        "expect_column_values_to_be_in_set",
        "Nine series of ten are normal now; with fewer look at what they have in common.",
        column="label",
        value_set=["normal"],
        mostly=0.9,
    ),
    "models_know_enough": info(
        "expect_column_values_to_be_between",
        "Half of the models at least have learned the 30 events that the default asks for before an alarm.",
        column="events_learned",
        min_value=30,
        mostly=0.5,
    ),
}
