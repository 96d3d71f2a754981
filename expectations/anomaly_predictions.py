"""What holds for `anomaly_predictions`, by check name."""

from keyfold.suite import Suite, critical, info, warning

LABELS = ["normal", "anomalous"]

EXPECTATIONS: Suite = {
    "key_is_there": critical("expect_column_values_to_not_be_null", "Every prediction names its series.", column="key"),
    "score_is_from_0_to_1": critical(
        "expect_column_values_to_be_between",
        "Scores lie between 0 (as expected) and 1.",
        column="score",
        min_value=0,
        max_value=1,
    ),
    "label_is_known": critical(
        "expect_column_values_to_be_in_set", "A prediction says normal or anomalous.", column="label", value_set=LABELS
    ),
    "previous_label_is_known": critical(
        "expect_column_values_to_be_in_set",
        "The prediction emitted before, where there is one, said normal or anomalous.",
        column="previous_label",
        value_set=LABELS,
    ),
    "anomalous_against_what_was_expected": critical(
        "unexpected_rows_expectation",
        "Nothing is called anomalous by a model that has learned nothing.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE label = 'anomalous' AND (expected IS NULL OR events_learned < 1)",
    ),
    "events_learned_is_not_negative": critical(
        "expect_column_values_to_be_between",
        "No model has learned less than nothing.",
        column="events_learned",
        min_value=0,
    ),
    "one_prediction_a_value": warning(
        "expect_compound_columns_to_be_unique",
        "A value is predicted once; the same twice means that it came again after `duplicate_window`.",
        column_list=["key", "event_time", "value"],
    ),
    "alarms_end": warning(
        "expect_column_values_to_be_in_set",
        "Of what is emitted two in five are normal: where alarms follow each other, a threshold is too low.",
        column="label",
        value_set=["normal"],
        mostly=0.4,
    ),
    "scores_are_usual": info(
        "expect_column_mean_to_be_between", "Emitted scores are 0.7 on average at most.", column="score", max_value=0.7
    ),
}
