"""What holds for `vehicle_trips`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "trip_id_is_unique": critical.unique("trip_id", "A trip is there once; twice its distance and fuel count twice."),
    "vehicle_id_is_there": critical.not_null("vehicle_id", "Every trip names its vehicle."),
    "ends_after_it_starts": critical.at_least("end_time", "start_time", "No trip ends before it starts."),
    "has_points": critical.between("n_points", "Every trip stands for one point at least.", min_value=1),
    "distance_is_not_negative": critical.between("distance_in_metres", "No trip goes less than nowhere.", min_value=0),
    "reason_is_known": critical.in_set("reason", ["STOPPED", "FELL_SILENT"], "Trips end for a known reason."),
    "times_add_up": critical.never(
        "abs(moving_seconds + idle_seconds - (unix_micros(end_time) - unix_micros(start_time)) / 1e6) > 0.001",
        "A vehicle moves or idles at every moment of a trip.",
    ),
    "trips_do_not_overlap": critical.no_rows(
        "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
        "end_time) AS end_before FROM {batch}) WHERE start_time < end_before",
        "A vehicle is in one trip at a time.",
    ),
    "speed_is_plausible": warning.between(
        "average_speed",
        "No trip averages more than 250 km/h: no vehicle does, a receiver that jumps does.",
        max_value=250,
    ),
    "fuel_is_not_negative": warning.between("fuel_used", "Trips use fuel; filling up is no use.", min_value=0),
    "fuel_efficiency_is_plausible": warning.never(
        "distance_in_metres > 1000 AND litres_per_100_km > 150",
        "Trips of a kilometre and more use 150 litres/100 km at most; more is a gauge that jumps, or a leak.",
    ),
    "hard_points_are_points": critical.never(
        "harsh_braking < 0 OR harsh_acceleration < 0 OR harsh_braking + harsh_acceleration > n_points + 1",
        "A point, or the arrival, is a hard one once: it brakes or accelerates.",
    ),
    "engine_temperature_is_possible": warning.between(
        "highest_engine_temperature",
        "Engines are not hotter than 200 °C; a sensor that is broken is.",
        min_value=-60,
        max_value=200,
    ),
    "most_trips_end_with_a_stop": info.in_set(
        "reason",
        ["STOPPED"],
        "Nine trips of ten end where the vehicle stops; fewer means that points are missing.",
        mostly=0.9,
    ),
}
