"""Expectations on `fleet_days`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "vehicle_id_is_there": critical.not_null("vehicle_id", "Every row names its vehicle."),
    "one_row_a_vehicle_and_day": critical.unique(
        ["vehicle_id", "day"], "A vehicle has one row a day; with two rows its kilometres count twice."
    ),
    "kilometres_are_not_negative": critical.between("kilometres", "Distances are not negative.", min_value=0),
    "fuel_is_not_negative": critical.between(
        "fuel_used", "Fuel use is not negative; refuelling does not count.", min_value=0
    ),
    "times_are_not_negative": critical.never(
        "least(moving_seconds, idle_seconds) < 0", "Moving and idle time are not negative."
    ),
    "there_is_a_trip": critical.between("trips", "A day has a row because a trip ended on it.", min_value=1),
    "speed_is_plausible": warning.never(
        "kilometres / nullif(moving_seconds, 0) * 3600 > 250",
        "No vehicle averages more than 250 km/h while it moves; more means that its receiver jumps.",
    ),
    "mean_distance_is_usual": info.mean_between(
        "kilometres", "Vehicles drive at most 1,500 km a day on average.", max_value=1500
    ),
}
