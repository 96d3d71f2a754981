"""What holds for `latest_predictions`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "key_is_there": critical.not_null("key", "Every prediction names its series."),
    "one_row_a_key": critical.unique("key", "A series has one last prediction."),
    "score_is_from_0_to_1": critical.between(
        "score", "Scores lie between 0 (as expected) and 1.", min_value=0, max_value=1
    ),
    "label_is_known": critical.in_set("label", ["normal", "anomalous"], "A prediction says normal or anomalous."),
    "band_holds_what_is_expected": critical.never(
        "expected < low OR expected > high OR (expected IS NOT NULL AND low > high)",
        "The band of usual values has the expected one in it.",
    ),
    "most_series_are_normal": warning.in_set(
        "label",
        ["normal"],
        "Nine series of ten are normal now; with fewer look at what they have in common.",
        mostly=0.9,
    ),
    "models_know_enough": info.between(
        "events_learned",
        "Half of the models at least have learned the 30 events that the default asks for before an alarm.",
        min_value=30,
        mostly=0.5,
    ),
}
