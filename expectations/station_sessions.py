"""Expectations on `station_sessions`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "station_id_is_there": critical.not_null("station_id", "Every row names its station."),
    "ends_after_it_starts": critical.at_least("end_time", "start_time", "No session ends before it starts."),
    "has_readings": critical.between("n_readings", "Every session counts at least one reading.", min_value=1),
    "reason_is_known": critical.in_set("reason", ["TIMEOUT"], "Sessions end for a known reason."),
    "sessions_do_not_overlap": critical.no_rows(
        "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY station_id ORDER BY start_time, "
        "end_time) AS end_before FROM {batch}) WHERE start_time < end_before",
        "A station is in one session at a time.",
    ),
    "a_lone_reading_takes_no_time": warning.never(
        "n_readings = 1 AND end_time > start_time",
        "A session of one reading ends when it starts.",
    ),
    "most_sessions_fill_a_window": info.between(
        "n_readings",
        "At least 75 % of the sessions have ten readings, a default window; fewer means short outages.",
        min_value=10,
        mostly=0.75,
    ),
}
