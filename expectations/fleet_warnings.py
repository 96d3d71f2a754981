"""What holds for `fleet_warnings`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": critical.not_null("vehicle_id", "Every warning names its vehicle."),
    "warning_is_known": critical.in_set(
        "warning", ["LOW_FUEL", "ENGINE_TOO_HOT", "IN_GEOFENCE"], "Vehicles are warned of for a known reason."
    ),
    "change_is_known": critical.in_set("change", ["BEGAN", "ENDED"], "A warning begins or ends."),
    "begins_and_ends_by_turns": critical.no_rows(
        "SELECT * FROM (SELECT *, lag(change) OVER (PARTITION BY vehicle_id, warning, geofence "
        "ORDER BY time, began_at, change DESC) AS before FROM {batch}) WHERE change = before",
        "What has begun ends before it begins again: one warning each, and none in between.",
    ),
    "ends_after_it_began": critical.never(
        "began_at > time OR (change = 'BEGAN' AND began_at <> time)",
        "No warning ends before it began.",
    ),
    "geofences_are_named": critical.never(
        "(warning = 'IN_GEOFENCE') <> (geofence IS NOT NULL)",
        "A warning of a geofence names it, and no other does.",
    ),
    "the_point_tells_why": critical.never(
        "(warning = 'LOW_FUEL' AND fuel_level IS NULL) OR (warning = 'ENGINE_TOO_HOT' AND engine_temperature IS NULL)",
        "A warning has the value for which it was given.",
    ),
    "engine_temperature_is_possible": warning.between(
        "engine_temperature",
        "Engines are not hotter than 200 °C; a sensor that is broken is.",
        min_value=-60,
        max_value=200,
    ),
    "no_warning_holds_for_a_week": info.never(
        "warning <> 'IN_GEOFENCE' AND time > began_at + INTERVAL 7 DAYS",
        "Low fuel, or a hot engine, that took a week to end was looked at by nobody.",
    ),
}
