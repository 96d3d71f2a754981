"""What holds for `latest_predictions`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "key_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "key"},
        "severity": "critical",
        "description": "Every prediction names its series.",
    },
    "one_row_a_key": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "key"},
        "severity": "critical",
        "description": "A series has one last prediction.",
    },
    "score_is_from_0_to_1": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "score", "min_value": 0, "max_value": 1},
        "severity": "critical",
        "description": "Scores lie between 0 (as expected) and 1.",
    },
    "label_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "label", "value_set": ["normal", "anomalous"]},
        "severity": "critical",
        "description": "A prediction says normal or anomalous.",
    },
    "band_holds_what_is_expected": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE expected < low OR expected > high OR (expected IS NOT NULL AND low > high)"
        },
        "severity": "critical",
        "description": "The band of usual values has the expected one in it.",
    },
    "most_series_are_normal": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "label", "value_set": ["normal"], "mostly": 0.9},
        "severity": "warning",
        "description": "Nine series of ten are normal now; with fewer look at what they have in common.",
    },
    "models_know_enough": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "events_learned", "min_value": 30, "mostly": 0.5},
        "severity": "info",
        "description": "Half of the models at least have learned the 30 events that the default asks for before an alarm.",
    },
}
