"""What holds for `fleet_warnings`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": critical(
        "expect_column_values_to_not_be_null", "Every warning names its vehicle.", column="vehicle_id"
    ),
    "warning_is_known": critical(
        "expect_column_values_to_be_in_set",
        "Vehicles are warned of for a known reason.",
        column="warning",
        value_set=["LOW_FUEL", "ENGINE_TOO_HOT", "IN_GEOFENCE"],
    ),
    "change_is_known": critical(
        "expect_column_values_to_be_in_set", "A warning begins or ends.", column="change", value_set=["BEGAN", "ENDED"]
    ),
    "begins_and_ends_by_turns": critical(
        "unexpected_rows_expectation",
        "What has begun ends before it begins again: one warning each, and none in between.",
        unexpected_rows_query="SELECT * FROM (SELECT *, lag(change) OVER (PARTITION BY vehicle_id, warning, geofence "
        "ORDER BY time, began_at, change DESC) AS before FROM {batch}) WHERE change = before",
    ),
    "ends_after_it_began": critical(
        "unexpected_rows_expectation",
        "No warning ends before it began.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE began_at > time OR (change = 'BEGAN' AND began_at <> time)",
    ),
    "geofences_are_named": critical(
        "unexpected_rows_expectation",
        "A warning of a geofence names it, and no other does.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE (warning = 'IN_GEOFENCE') <> (geofence IS NOT NULL)",
    ),
    "the_point_tells_why": critical(
        "unexpected_rows_expectation",
        "A warning has the value for which it was given.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE (warning = 'LOW_FUEL' AND fuel_level IS NULL) "
        "OR (warning = 'ENGINE_TOO_HOT' AND engine_temperature IS NULL)",
    ),
    "engine_temperature_is_possible": warning(
        "expect_column_values_to_be_between",
        "Engines are not hotter than 200 °C; a sensor that is broken is.",
        column="engine_temperature",
        min_value=-60,
        max_value=200,
    ),
    "no_warning_holds_for_a_week": info(
        "unexpected_rows_expectation",
        "Low fuel, or a hot engine, that took a week to end was looked at by nobody.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE warning <> 'IN_GEOFENCE' AND time > began_at + INTERVAL 7 DAYS",
    ),
}
