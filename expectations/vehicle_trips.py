"""What holds for `vehicle_trips`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "trip_id_is_unique": critical(
        "expect_column_values_to_be_unique",
        "A trip is there once; twice its distance and fuel count twice.",
        column="trip_id",
    ),
    "vehicle_id_is_there": critical(
        "expect_column_values_to_not_be_null", "Every trip names its vehicle.", column="vehicle_id"
    ),
    "ends_after_it_starts": critical(
        "expect_column_pair_values_a_to_be_greater_than_b",
        "No trip ends before it starts.",
        column_A="end_time",
        column_B="start_time",
        or_equal=True,
    ),
    "has_points": critical(
        "expect_column_values_to_be_between",
        "Every trip stands for one point at least.",
        column="n_points",
        min_value=1,
    ),
    "distance_is_not_negative": critical(
        "expect_column_values_to_be_between",
        "No trip goes less than nowhere.",
        column="distance_in_metres",
        min_value=0,
    ),
    "reason_is_known": critical(
        "expect_column_values_to_be_in_set",
        "Trips end for a known reason.",
        column="reason",
        value_set=["STOPPED", "FELL_SILENT"],
    ),
    "times_add_up": critical(
        "unexpected_rows_expectation",
        "A vehicle moves or idles at every moment of a trip.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE abs(moving_seconds + idle_seconds - (unix_micros(end_time) - "
        "unix_micros(start_time)) / 1e6) > 0.001",
    ),
    "trips_do_not_overlap": critical(
        "unexpected_rows_expectation",
        "A vehicle is in one trip at a time.",
        unexpected_rows_query="SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
        "end_time) AS end_before FROM {batch}) WHERE start_time < end_before",
    ),
    "speed_is_plausible": warning(
        "expect_column_values_to_be_between",
        "No trip averages more than 250 km/h: no vehicle does, a receiver that jumps does.",
        column="average_speed",
        max_value=250,
    ),
    "fuel_is_not_negative": warning(
        "expect_column_values_to_be_between", "Trips use fuel; filling up is no use.", column="fuel_used", min_value=0
    ),
    "fuel_efficiency_is_plausible": warning(
        "unexpected_rows_expectation",
        "Trips of a kilometre and more use 150 litres/100 km at most; more is a gauge that jumps, or a leak.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE distance_in_metres > 1000 AND litres_per_100_km > 150",
    ),
    "hard_points_are_points": critical(
        "unexpected_rows_expectation",
        "A point, or the arrival, is a hard one once: it brakes or accelerates.",
        unexpected_rows_query="SELECT * FROM {batch} WHERE harsh_braking < 0 OR harsh_acceleration < 0 "
        "OR harsh_braking + harsh_acceleration > n_points + 1",
    ),
    "engine_temperature_is_possible": warning(
        "expect_column_values_to_be_between",
        "Engines are not hotter than 200 °C; a sensor that is broken is.",
        column="highest_engine_temperature",
        min_value=-60,
        max_value=200,
    ),
    "most_trips_end_with_a_stop": info(
        "expect_column_values_to_be_in_set",
        "Nine trips of ten end where the vehicle stops; fewer means that points are missing.",
        column="reason",
        value_set=["STOPPED"],
        mostly=0.9,
    ),
}
