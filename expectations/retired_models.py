"""What holds for `retired_models`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "key_is_there": critical(
        "expect_column_values_to_not_be_null", "Every row names the series whose model retired.", column="key"
    ),
    "has_learned": critical(
        "expect_column_values_to_be_between",
        "Every row stands for one event at least.",
        column="events_learned",
        min_value=1,
    ),
    "retires_after_its_last_event": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "A model retires after a silence.",
        column_A="retired_at",
        column_B="last_event_time",
    ),
    "a_model_retires_once": critical(
        "expect_compound_columns_to_be_unique",
        "A model has one row; with two its events count twice.",
        column_list=["key", "last_event_time"],
    ),
    "models_were_worth_it": warning(
        "expect_column_values_to_be_between",
        "Half of them at least had learned the 30 events that the default asks for before an alarm.",
        column="events_learned",
        min_value=30,
        mostly=0.5,
    ),
    "series_do_not_come_and_go": info(
        "expect_column_values_to_be_unique",
        "Nine in ten retire for good; where series come back, `forget_after` is too short.",
        column="key",
        mostly=0.9,
    ),
}
