"""What holds for `retired_models`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "key_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "key"},
        "severity": "critical",
        "description": "Every row names the series whose model retired.",
    },
    "has_learned": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "events_learned", "min_value": 1},
        "severity": "critical",
        "description": "Every row stands for one event at least.",
    },
    "retires_after_its_last_event": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "retired_at", "column_B": "last_event_time"},
        "severity": "critical",
        "description": "A model retires after a silence.",
    },
    "a_model_retires_once": {
        "type": "expect_compound_columns_to_be_unique",
        "kwargs": {"column_list": ["key", "last_event_time"]},
        "severity": "critical",
        "description": "A model has one row; with two its events count twice.",
    },
    "models_were_worth_it": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "events_learned", "min_value": 30, "mostly": 0.5},
        "severity": "warning",
        "description": "Half of them at least had learned the 30 events that the default asks for before an alarm.",
    },
    "series_do_not_come_and_go": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "key", "mostly": 0.9},
        "severity": "info",
        "description": "Nine in ten retire for good; where series come back, `forget_after` is too short.",
    },
}
