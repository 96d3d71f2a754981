"""What holds for `retired_models`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "key_is_there": critical.not_null("key", "Every row names the series whose model retired."),
    "has_learned": critical.between("events_learned", "Every row stands for one event at least.", min_value=1),
    "retires_after_its_last_event": critical.greater(
        "retired_at", "last_event_time", "A model retires after a silence."
    ),
    "a_model_retires_once": critical.unique(
        ["key", "last_event_time"], "A model has one row; with two its events count twice."
    ),
    "models_were_worth_it": warning.between(
        "events_learned",
        "Half of them at least had learned the 30 events that the default asks for before an alarm.",
        min_value=30,
        mostly=0.5,
    ),
    "series_do_not_come_and_go": info.unique(
        "key", "Nine in ten retire for good; where series come back, `forget_after` is too short.", mostly=0.9
    ),
}
