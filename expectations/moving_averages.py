"""What holds for `moving_averages` of the default columns, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "station_id_is_there": critical.not_null("station_id", "Every row names its station."),
    "ends_after_it_starts": critical.at_least("end_time", "start_time", "No window ends before it starts."),
    "one_row_a_reading": critical.unique(
        ["station_id", "end_time"], "A station has one window that ends at a reading; the stream has each reading once."
    ),
    "has_readings": critical.between("n_readings", "Every window holds one reading at least.", min_value=1),
    "reason_is_known": critical.in_set(
        "reason", ["WINDOW_FULL", "WINDOW_FILLING", "TIMEOUT"], "Rows are given for a known reason."
    ),
    "full_windows_are_of_one_size": critical.never(
        "reason = 'WINDOW_FULL' AND n_readings < (SELECT max(n_readings) FROM {batch})",
        "What is called full holds as many readings as any.",
    ),
    "pressure_is_plausible": warning.between(
        "pressure_avg", "Averages of pressures (hPa) lie where pressures do.", min_value=800, max_value=1100
    ),
    "temp_is_plausible": warning.between(
        "temp_avg", "Averages of temperatures (°F) lie where temperatures do.", min_value=-150, max_value=160
    ),
    "most_windows_are_full": info.in_set(
        "reason", ["WINDOW_FULL"], "Nine windows of ten are full; fewer means that stations come and go.", mostly=0.9
    ),
}
