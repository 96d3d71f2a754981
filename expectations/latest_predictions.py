"""Expectations on `latest_predictions`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "key_is_there": critical.not_null("key", "Every prediction names its series."),
    "one_row_a_key": critical.unique("key", "A series has one last prediction."),
    "score_is_from_0_to_1": critical.between(
        "score", "Scores are between 0 (as expected) and 1.", min_value=0, max_value=1
    ),
    "label_is_known": critical.in_set("label", ["normal", "anomalous"], "The label is normal or anomalous."),
    "band_holds_what_is_expected": critical.never(
        "expected < low OR expected > high OR (expected IS NOT NULL AND low > high)",
        "The expected value is within the band of usual values.",
    ),
    "most_series_are_normal": warning.in_set(
        "label",
        ["normal"],
        "At least 90 % of the series are normal now; if fewer are, see what the others have in common.",
        mostly=0.9,
    ),
    "models_know_enough": info.between(
        "events_learned",
        "At least half of the models have learned 30 events, which the default requires before an alarm.",
        min_value=30,
        mostly=0.5,
    ),
}
