"""Expectations on `retired_models`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "key_is_there": critical.not_null("key", "Every row names the series whose model retired."),
    "has_learned": critical.between("events_learned", "Every row counts at least one event.", min_value=1),
    "retires_after_its_last_event": critical.greater(
        "retired_at", "last_event_time", "A model retires after its last event."
    ),
    "a_model_retires_once": critical.unique(
        ["key", "last_event_time"], "A model has one row; with two its events count twice."
    ),
    "models_were_worth_it": warning.between(
        "events_learned",
        "At least half of the models had learned 30 events, which the default requires before an alarm.",
        min_value=30,
        mostly=0.5,
    ),
    "series_do_not_come_and_go": info.unique(
        "key", "At least 90 % of the models retire for good; fewer means that `forget_after` is too short.", mostly=0.9
    ),
}
