"""Expectations on `moving_averages` of the default columns, by check name."""

from keyfold.suite import Suite, critical, info, warning

EXPECTATIONS: Suite = {
    "station_id_is_there": critical.not_null("station_id", "Every row names its station."),
    "ends_after_it_starts": critical.at_least("end_time", "start_time", "No window ends before it starts."),
    "one_row_a_reading": critical.unique(["station_id", "end_time"], "A station has one window for each reading."),
    "has_readings": critical.between("n_readings", "Every window has at least one reading.", min_value=1),
    "reason_is_known": critical.in_set(
        "reason", ["WINDOW_FULL", "WINDOW_FILLING", "TIMEOUT"], "Every row has a known reason."
    ),
    "full_windows_are_of_one_size": critical.never(
        "reason = 'WINDOW_FULL' AND n_readings < (SELECT max(n_readings) FROM {batch})",
        "No window has more readings than a full one.",
    ),
    "pressure_is_plausible": warning.between(
        "pressure_avg", "Averages of pressure are plausible pressures (hPa).", min_value=800, max_value=1100
    ),
    "temp_is_plausible": warning.between(
        "temp_avg", "Averages of temperature are plausible temperatures (°F).", min_value=-150, max_value=160
    ),
    "most_windows_are_full": info.in_set(
        "reason",
        ["WINDOW_FULL"],
        "At least 90 % of the windows are full; fewer means that stations come and go.",
        mostly=0.9,
    ),
}
