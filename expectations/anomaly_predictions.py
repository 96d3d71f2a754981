"""What holds for `anomaly_predictions`, by check name."""

from keyfold.suite import Suite, critical, info, warning

LABELS = ["normal", "anomalous"]

EXPECTATIONS: Suite = {
    "key_is_there": critical.not_null("key", "Every prediction names its series."),
    "score_is_from_0_to_1": critical.between(
        "score", "Scores lie between 0 (as expected) and 1.", min_value=0, max_value=1
    ),
    "label_is_known": critical.in_set("label", LABELS, "A prediction says normal or anomalous."),
    "previous_label_is_known": critical.in_set(
        "previous_label", LABELS, "The prediction emitted before, where there is one, said normal or anomalous."
    ),
    "anomalous_against_what_was_expected": critical.never(
        "label = 'anomalous' AND (expected IS NULL OR events_learned < 1)",
        "Nothing is called anomalous by a model that has learned nothing.",
    ),
    "events_learned_is_not_negative": critical.between(
        "events_learned", "No model has learned less than nothing.", min_value=0
    ),
    "one_prediction_a_value": warning.unique(
        ["key", "event_time", "value"],
        "A value is predicted once; the same twice means that it came again after `duplicate_window`.",
    ),
    "alarms_end": warning.in_set(
        "label",
        ["normal"],
        "Of what is emitted two in five are normal: where alarms follow each other, a threshold is too low.",
        mostly=0.4,
    ),
    "scores_are_usual": info.mean_between("score", "Emitted scores are 0.7 on average at most.", max_value=0.7),
}
