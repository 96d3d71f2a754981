"""Expectations on `anomaly_predictions`, by check name."""

from keyfold.suite import Suite, critical, info, warning

LABELS = ["normal", "anomalous"]

EXPECTATIONS: Suite = {
    "key_is_there": critical.not_null("key", "Every prediction names its series."),
    "score_is_from_0_to_1": critical.between(
        "score", "Scores are between 0 (as expected) and 1.", min_value=0, max_value=1
    ),
    "label_is_known": critical.in_set("label", LABELS, "The label is normal or anomalous."),
    "previous_label_is_known": critical.in_set(
        "previous_label", LABELS, "The label of the previous prediction, if any, is normal or anomalous."
    ),
    "anomalous_against_what_was_expected": critical.never(
        "label = 'anomalous' AND (expected IS NULL OR events_learned < 1)",
        "A model that has learned no event labels nothing anomalous.",
    ),
    "events_learned_is_not_negative": critical.between(
        "events_learned", "The number of learned events is not negative.", min_value=0
    ),
    "one_prediction_a_value": warning.unique(
        ["key", "event_time", "value"],
        "Each value is predicted once; two predictions mean that it arrived again after `duplicate_window`.",
    ),
    "alarms_end": warning.in_set(
        "label",
        ["normal"],
        "At least 40 % of the emitted predictions are normal; fewer means that a threshold is too low.",
        mostly=0.4,
    ),
    "scores_are_usual": info.mean_between("score", "The mean of emitted scores is at most 0.7.", max_value=0.7),
}
