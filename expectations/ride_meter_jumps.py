"""What holds for `ride_meter_jumps`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "ride_id_is_there": critical.not_null("ride_id", "Every jump names its ride."),
    "pattern_is_known": critical.in_set("pattern", ["jump"], "The job looks for one pattern."),
    "a_point_begins_one_jump": critical.unique(["ride_id", "first_point_idx"], "A reading is followed by one reading."),
    "the_meter_rises": critical.greater("last_meter_reading", "first_meter_reading", "A jump goes up."),
    "the_second_is_not_before_the_first": critical.at_least(
        "last_time", "first_time", "Readings are told in order of time."
    ),
    "points_follow_each_other": warning.greater(
        "last_point_idx",
        "first_point_idx",
        "Points are numbered in order of time; else a clock was set, or points are numbered wrong.",
    ),
    "few_jumps_a_ride": info.no_rows(
        "SELECT ride_id, count(*) AS jumps FROM {batch} GROUP BY ride_id HAVING count(*) > 5",
        "A meter that jumps more than five times is broken, or `jump` is too small.",
    ),
}
