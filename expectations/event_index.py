"""Expectations on `event_index` with its default stream and key, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "ride_id_is_there": critical.not_null("ride_id", "Every event names its key."),
    "event_index_is_there": critical.not_null("event_index", "Every event has a number."),
    "counts_from_nought": critical.between("event_index", "Numbers are not negative.", min_value=0),
    "one_event_a_number": critical.unique(["ride_id", "event_index"], "No two events of a key have the same number."),
    "no_number_is_skipped": critical.no_rows(
        "SELECT ride_id, count(*) AS events, max(event_index) AS last FROM {batch} GROUP BY ride_id "
        "HAVING max(event_index) <> count(*) - 1",
        "A key's numbers have no gaps.",
    ),
    "numbers_follow_time": warning.no_rows(
        "SELECT * FROM (SELECT *, lag(timestamp) OVER (PARTITION BY ride_id ORDER BY event_index NULLS FIRST) AS before "
        "FROM {batch}) WHERE timestamp < before",
        "Numbers follow event time; a violation means that an event was more than `delay` late.",
    ),
    "mean_index_is_usual": info.mean_between(
        "event_index",
        "No key has more than about two million events; one task processes all events of a key.",
        max_value=1_000_000,
    ),
}
