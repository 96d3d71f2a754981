"""What holds for `vehicle_trips`, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from keyfold.suite import Suite

EXPECTATIONS: Suite = {
    "trip_id_is_unique": {
        "type": "expect_column_values_to_be_unique",
        "kwargs": {"column": "trip_id"},
        "severity": "critical",
        "description": "A trip is there once; twice its distance and fuel count twice.",
    },
    "vehicle_id_is_there": {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "vehicle_id"},
        "severity": "critical",
        "description": "Every trip names its vehicle.",
    },
    "ends_after_it_starts": {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "end_time", "column_B": "start_time", "or_equal": True},
        "severity": "critical",
        "description": "No trip ends before it starts.",
    },
    "has_points": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "n_points", "min_value": 1},
        "severity": "critical",
        "description": "Every trip stands for one point at least.",
    },
    "distance_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "distance_in_metres", "min_value": 0},
        "severity": "critical",
        "description": "No trip goes less than nowhere.",
    },
    "reason_is_known": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "reason", "value_set": ["STOPPED", "FELL_SILENT"]},
        "severity": "critical",
        "description": "Trips end for a known reason.",
    },
    "times_add_up": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE abs(moving_seconds + idle_seconds - (unix_micros(end_time) - "
                "unix_micros(start_time)) / 1e6) > 0.001"
            )
        },
        "severity": "critical",
        "description": "A vehicle moves or idles at every moment of a trip.",
    },
    "trips_do_not_overlap": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
                "end_time) AS end_before FROM {batch}) WHERE start_time < end_before"
            )
        },
        "severity": "critical",
        "description": "A vehicle is in one trip at a time.",
    },
    "speed_is_plausible": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "average_speed", "max_value": 250},
        "severity": "warning",
        "description": "No trip averages more than 250 km/h: no vehicle does, a receiver that jumps does.",
    },
    "fuel_is_not_negative": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "fuel_used", "min_value": 0},
        "severity": "warning",
        "description": "Trips use fuel; filling up is no use.",
    },
    "fuel_efficiency_is_plausible": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE distance_in_metres > 1000 AND litres_per_100_km > 150"
            )
        },
        "severity": "warning",
        "description": "Trips of a kilometre and more use 150 litres/100 km at most; more is a gauge that jumps, or a leak.",
    },
    "hard_points_are_points": {
        "type": "unexpected_rows_expectation",
        "kwargs": {
            "unexpected_rows_query": (
                "SELECT * FROM {batch} WHERE harsh_braking < 0 OR harsh_acceleration < 0 "
                "OR harsh_braking + harsh_acceleration > n_points + 1"
            )
        },
        "severity": "critical",
        "description": "A point, or the arrival, is a hard one once: it brakes or accelerates.",
    },
    "engine_temperature_is_possible": {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "highest_engine_temperature", "min_value": -60, "max_value": 200},
        "severity": "warning",
        "description": "Engines are not hotter than 200 °C; a sensor that is broken is.",
    },
    "most_trips_end_with_a_stop": {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "reason", "value_set": ["STOPPED"], "mostly": 0.9},
        "severity": "info",
        "description": "Nine trips of ten end where the vehicle stops; fewer means that points are missing.",
    },
}
