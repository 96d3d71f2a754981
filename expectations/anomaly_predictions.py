"""What holds for `anomaly_predictions`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

LABELS = ["normal", "anomalous"]

EXPECTATIONS: Suite = {
    "key_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "key"},
        "severity": "critical",
        "description": "Every prediction names its series.",
    },
    "score_is_from_0_to_1": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "score", "min_value": 0, "max_value": 1},
        "severity": "critical",
        "description": "Scores lie between 0 (as expected) and 1.",
    },
    "label_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "label", "value_set": LABELS},
        "severity": "critical",
        "description": "A prediction says normal or anomalous.",
    },
    "previous_label_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "previous_label", "value_set": LABELS},
        "severity": "critical",
        "description": "The prediction emitted before, where there is one, said normal or anomalous.",
    },
    "anomalous_against_what_was_expected": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE label = 'anomalous' AND (expected IS NULL OR events_learned < 1)"
        },
        "severity": "critical",
        "description": "Nothing is called anomalous by a model that has learned nothing.",
    },
    "events_learned_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "events_learned", "min_value": 0},
        "severity": "critical",
        "description": "No model has learned less than nothing.",
    },
    "one_prediction_a_value": {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["key", "event_time", "value"]},
        "severity": "warning",
        "description": "A value is predicted once; the same twice means that it came again after `duplicate_window`.",
    },
    "alarms_end": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "label", "value_set": ["normal"], "mostly": 0.4},
        "severity": "warning",
        "description": "Of what is emitted two in five are normal: where alarms follow each other, a threshold is too low.",
    },
    "scores_are_usual": {
        "type": "expect_column_mean_to_be_between",
        "kwargs": {"column": "score", "max_value": 0.7},
        "severity": "info",
        "description": "Emitted scores are 0.7 on average at most.",
    },
}
