"""Expectations on `vehicle_stops`, by check name."""

from keyfold.suite import Suite, critical, info

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": critical.not_null("vehicle_id", "Every stop names its vehicle."),
    "ends_after_it_starts": critical.at_least("end_time", "start_time", "No stop ends before it starts."),
    "has_points": critical.between("n_points", "Every stop counts at least one point.", min_value=1),
    "reason_is_known": critical.in_set("reason", ["MOVED_ON", "FELL_SILENT"], "Stops end for a known reason."),
    "stops_do_not_overlap": critical.no_rows(
        "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
        "end_time) AS end_before FROM {batch}) WHERE start_time < end_before",
        "A vehicle is in one stop at a time.",
    ),
    "latitude_is_on_earth": critical.between(
        "latitude", "Latitudes are between -90 and 90 degrees.", min_value=-90, max_value=90
    ),
    "longitude_is_on_earth": critical.between(
        "longitude", "Longitudes are between -180 and 180 degrees.", min_value=-180, max_value=180
    ),
    "no_stop_takes_a_week": info.never(
        "end_time > start_time + INTERVAL '7 days'",
        "No stop lasts longer than a week; a longer one means an unused vehicle or a stuck receiver.",
    ),
}
