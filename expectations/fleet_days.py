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
    "no_day_is_longer_than_a_day": critical.never(
        "moving_seconds + idle_seconds + stopped_seconds > 25 * 3600 + 0.001 "
        "OR least(moving_seconds, idle_seconds, stopped_seconds) < 0",
        "Moving, idle and stopped time together are at most a day (25 hours when clocks are set back).",
    ),
    "points_are_of_their_day": critical.never(
        "latest < day_start OR latest >= day_start + INTERVAL '25 hours' OR (latest IS NULL) <> (n_points = 0)",
        "The last point of a day is within that day.",
    ),
    "speed_is_plausible": warning.never(
        "kilometres / nullif(moving_seconds, 0) * 3600 > 250",
        "No vehicle averages more than 250 km/h while it moves; more means that its receiver jumps.",
    ),
    "mean_distance_is_usual": info.mean_between(
        "kilometres", "Vehicles drive at most 1,500 km a day on average.", max_value=1500
    ),
}
