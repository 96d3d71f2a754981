"""Expectations on `vehicle_trips`, by check name."""

from keyfold.suite import Expectation, Suite, critical, info, warning


def engine_temperature_is_possible(column: str) -> Expectation:
    """Expect temperatures in °C that an engine can have."""
    what = "Engines are not hotter than 200 °C; more means that a sensor is broken."
    return warning.between(column, what, min_value=-60, max_value=200)


EXPECTATIONS: Suite = {
    "trip_id_is_unique": critical.unique(
        "trip_id", "Each trip has one row; with two rows its distance and fuel count twice."
    ),
    "vehicle_id_is_there": critical.not_null("vehicle_id", "Every trip names its vehicle."),
    "ends_after_it_starts": critical.at_least("end_time", "start_time", "No trip ends before it starts."),
    "has_points": critical.between("n_points", "Every trip counts at least one point.", min_value=1),
    "distance_is_not_negative": critical.between("distance_in_metres", "Distances are not negative.", min_value=0),
    "reason_is_known": critical.in_set("reason", ["STOPPED", "FELL_SILENT"], "Trips end for a known reason."),
    "times_add_up": critical.never(
        "abs(moving_seconds + idle_seconds - CAST(end_time - start_time AS BIGINT) / 1e6) > 0.001",
        "Moving and idle time add up to the duration of the trip.",
    ),
    "trips_do_not_overlap": critical.no_rows(
        "SELECT * FROM (SELECT *, lag(end_time) OVER (PARTITION BY vehicle_id ORDER BY start_time, "
        "end_time) AS end_before FROM {batch}) WHERE start_time < end_before",
        "A vehicle is in one trip at a time.",
    ),
    "speed_is_plausible": warning.between(
        "average_speed",
        "No trip averages more than 250 km/h; more means that a receiver jumps.",
        max_value=250,
    ),
    "fuel_is_not_negative": warning.between(
        "fuel_used", "Fuel use is not negative; refuelling does not count.", min_value=0
    ),
    "fuel_efficiency_is_plausible": warning.never(
        "distance_in_metres > 1000 AND litres_per_100_km > 150",
        "Trips of at least 1 km use at most 150 litres/100 km; more means a jumping gauge or a leak.",
    ),
    "hard_points_are_points": critical.never(
        "harsh_braking < 0 OR harsh_acceleration < 0 OR harsh_braking + harsh_acceleration > n_points + 1",
        "A trip has at most one hard braking or acceleration per point, its arrival included.",
    ),
    "engine_temperature_is_possible": engine_temperature_is_possible("highest_engine_temperature"),
    "most_trips_end_with_a_stop": info.in_set(
        "reason",
        ["STOPPED"],
        "At least 90 % of the trips end where the vehicle stops; fewer means that points are missing.",
        mostly=0.9,
    ),
}
