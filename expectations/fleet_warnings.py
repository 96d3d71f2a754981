"""What holds for `fleet_warnings`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "vehicle_id"},
        "severity": "critical",
        "description": "Every warning names its vehicle.",
    },
    "warning_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "warning", "value_set": ["LOW_FUEL", "ENGINE_TOO_HOT", "IN_GEOFENCE"]},
        "severity": "critical",
        "description": "Vehicles are warned of for a known reason.",
    },
    "change_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "change", "value_set": ["BEGAN", "ENDED"]},
        "severity": "critical",
        "description": "A warning begins or ends.",
    },
    "begins_and_ends_by_turns": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM (SELECT *, lag(change) OVER (PARTITION BY vehicle_id, warning, geofence "
                "ORDER BY time, began_at, change DESC) AS before FROM {batch}) WHERE change = before"
            )
        },
        "severity": "critical",
        "description": "What has begun ends before it begins again: one warning each, and none in between.",
    },
    "ends_after_it_began": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE began_at > time OR (change = 'BEGAN' AND began_at <> time)"
            )
        },
        "severity": "critical",
        "description": "No warning ends before it began.",
    },
    "geofences_are_named": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": "SELECT * FROM {batch} WHERE (warning = 'IN_GEOFENCE') <> (geofence IS NOT NULL)"
        },
        "severity": "critical",
        "description": "A warning of a geofence names it, and no other does.",
    },
    "the_point_tells_why": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE (warning = 'LOW_FUEL' AND fuel_level IS NULL) "
                "OR (warning = 'ENGINE_TOO_HOT' AND engine_temperature IS NULL)"
            )
        },
        "severity": "critical",
        "description": "A warning has the value for which it was given.",
    },
    "engine_temperature_is_possible": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "engine_temperature", "min_value": -60, "max_value": 200},
        "severity": "warning",
        "description": "Engines are not hotter than 200 °C; a sensor that is broken is.",
    },
    "no_warning_holds_for_a_week": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE warning <> 'IN_GEOFENCE' AND time > began_at + INTERVAL 7 DAYS"
            )
        },
        "severity": "info",
        "description": "Low fuel, or a hot engine, that took a week to end was looked at by nobody.",
    },
}
