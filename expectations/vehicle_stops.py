"""What holds for `vehicle_stops`, by check name."""

from keyfold.suite import Suite, critical, info

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": critical.not_null("vehicle_id", "Every stop names its vehicle."),
    "ends_after_it_starts": critical.at_least("end_time", "start_time", "No stop ends before it starts."),
    "has_points": critical.between("n_points", "Every stop stands for one point at least.", min_value=1),
    "reason_is_known": critical.in_set("reason", ["MOVED_ON", "FELL_SILENT"], "Stops end for a known reason."),
    "stops_do_not_overlap": critical.no_rows(
        "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
        "end_time) AS end_before FROM {batch}) WHERE start_time < end_before",
        "A vehicle is in one stop at a time.",
    ),
    "latitude_is_on_earth": critical.between("latitude", "Stops are between the poles.", min_value=-90, max_value=90),
    "longitude_is_on_earth": critical.between(
        "longitude", "Stops are between -180 and 180 degrees east.", min_value=-180, max_value=180
    ),
    "no_stop_takes_a_week": info.never(
        "end_time > start_time + INTERVAL 7 DAYS",
        "A vehicle that reports for a week from one place is out of use, or its receiver is stuck.",
    ),
}
