"""Expectations on `ride_summaries`, by check name."""

from keyfold.suite import Suite, critical, info, warning

STATUSES = ["pickup", "enroute", "dropoff"]
REASONS = ["DROPOFF_SEEN", "GARBAGE_COLLECTION"]
EXPECTATIONS: Suite = {
    "ride_id_is_there": critical.not_null("ride_id", "Every summary names its ride."),
    "one_summary_a_ride": critical.unique(
        "ride_id",
        "A ride has one summary; with two its fare counts twice. (An id used again after `closed_for` has two.)",
    ),
    "ends_after_it_starts": critical.at_least("end_time", "start_time", "No ride ends before it starts."),
    "duration_is_not_negative": critical.between("ride_duration_in_secs", "Durations are not negative.", min_value=0),
    "has_points": critical.between("n_points", "Every summary counts at least one point.", min_value=1),
    "distance_is_not_negative": critical.between("distance_in_metres", "Distances are not negative.", min_value=0),
    "start_status_is_known": critical.in_set("start_status", STATUSES, "Rides start in a known status."),
    "end_status_is_known": critical.in_set("end_status", STATUSES, "Rides end in a known status."),
    "reason_is_known": critical.in_set("reason", REASONS, "Rides close for a known reason."),
    "dropoff_seen_means_dropoff": critical.never(
        "(reason = 'DROPOFF_SEEN') <> (end_status = 'dropoff')",
        "Exactly the rides closed for their dropoff end with a dropoff.",
    ),
    "speed_is_plausible": warning.never(
        "distance_in_metres > 70 * greatest(ride_duration_in_secs, 1)",
        "No ride is faster than 70 m/s (250 km/h) from start to end; faster means that a receiver jumps.",
    ),
    "fare_is_not_negative": warning.between("fare", "Fares are not negative.", min_value=0),
    "most_rides_start_with_a_pickup": warning.in_set(
        "start_status",
        ["pickup"],
        "At least 95 % of the rides start with a pickup; fewer means that points are missing.",
        mostly=0.95,
    ),
    "mean_duration_is_usual": info.mean_between(
        "ride_duration_in_secs", "The mean duration is between a minute and two hours.", min_value=60, max_value=7200
    ),
}
