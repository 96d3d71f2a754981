"""Expectations on `latest_moving_averages` of the default columns, by check name."""

from expectations import moving_averages
from keyfold.suite import Suite, critical, info

EXPECTATIONS: Suite = {
    "one_row_a_station": critical.unique("station_id", "A station has one latest row."),
    **{
        name: moving_averages.EXPECTATIONS[name]
        for name in (
            "station_id_is_there",
            "ends_after_it_starts",
            "reason_is_known",
            "pressure_is_plausible",
            "temp_is_plausible",
        )
    },
    "no_station_lags_behind": info.never(
        "end_time < (SELECT max(end_time) FROM {batch}) - INTERVAL '1 day'",
        "The latest window of every station ends within a day of the newest; older means that the station is silent.",
    ),
}
