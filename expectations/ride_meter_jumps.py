"""Expectations on `ride_meter_jumps`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "ride_id_is_there": critical.not_null("ride_id", "Every jump names its ride."),
    "pattern_is_known": critical.in_set("pattern", ["jump"], "Every jump names the job's only pattern."),
    "a_point_begins_one_jump": critical.unique(
        ["ride_id", "first_point_idx"], "A reading is the first of at most one jump."
    ),
    "the_meter_rises": critical.greater(
        "last_meter_reading", "first_meter_reading", "The second reading is greater than the first."
    ),
    "the_second_is_not_before_the_first": critical.at_least(
        "last_time", "first_time", "The first reading is not later than the second."
    ),
    "points_follow_each_other": warning.greater(
        "last_point_idx",
        "first_point_idx",
        "Points are numbered in order of time; a violation means that a clock was set, or that numbers are wrong.",
    ),
    "few_jumps_a_ride": info.no_rows(
        "SELECT ride_id, count(*) AS jumps FROM {batch} GROUP BY ride_id HAVING count(*) > 5",
        "No meter jumps more than five times; more means that it is broken, or that `jump` is too small.",
    ),
}
