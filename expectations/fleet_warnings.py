"""Expectations on `fleet_warnings`, by check name."""

from expectations.vehicle_trips import engine_temperature_is_possible
from keyfold.suite import Suite, critical, info

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": critical.not_null("vehicle_id", "Every warning names its vehicle."),
    "warning_is_known": critical.in_set(
        "warning", ["LOW_FUEL", "ENGINE_TOO_HOT", "IN_GEOFENCE"], "Every warning is of a known kind."
    ),
    "change_is_known": critical.in_set("change", ["BEGAN", "ENDED"], "Every change is BEGAN or ENDED."),
    "begins_and_ends_by_turns": critical.no_rows(
        "SELECT * FROM (SELECT *, lag(change) OVER (PARTITION BY vehicle_id, warning, geofence "
        "ORDER BY time, began_at, change DESC) AS before FROM {batch}) WHERE change = before",
        "A warning ends before the same warning begins again.",
    ),
    "ends_after_it_began": critical.never(
        "began_at > time OR (change = 'BEGAN' AND began_at <> time)",
        "No warning ends before it began.",
    ),
    "geofences_are_named": critical.never(
        "(warning = 'IN_GEOFENCE') <> (geofence IS NOT NULL)",
        "Geofence warnings name their geofence; other warnings name none.",
    ),
    "the_point_tells_why": critical.never(
        "(warning = 'LOW_FUEL' AND fuel_level IS NULL) OR (warning = 'ENGINE_TOO_HOT' AND engine_temperature IS NULL)",
        "Every warning has the value that triggered it.",
    ),
    "engine_temperature_is_possible": engine_temperature_is_possible("engine_temperature"),
    "no_warning_holds_for_a_week": info.never(
        "warning <> 'IN_GEOFENCE' AND time > began_at + INTERVAL '7 days'",
        "Warnings of fuel and engine end within a week; longer means that nobody has acted.",
    ),
}
