"""Expectations on `ride_weather`, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "ride_id_is_there": critical.not_null("ride_id", "Every row names its ride."),
    "one_row_a_ride": critical.unique(
        ["ride_id", "start_time"], "A summary of a ride is joined once; with two rows its fare counts twice."
    ),
    "reading_is_not_of_later": critical.never(
        "time > start_time",
        "A ride's weather was measured before its start.",
    ),
    "only_rides_near_a_station_have_a_reading": critical.never(
        "station_id = '' AND time IS NOT NULL",
        "A ride without a station nearby has no weather.",
    ),
    "temp_is_plausible": warning.between(
        "temp", "Temperatures (°F) are within the stream's limits.", min_value=-150, max_value=160
    ),
    "most_rides_have_weather": info.not_null(
        "time",
        "At least 90 % of the rides have weather; fewer means that a station is silent, or that rides begin far from all "
        "stations.",
        mostly=0.9,
    ),
}
