"""The weather: readings of stations as they arrive, and their moving averages."""

from assets.keyed_asset import TableDoc, conservation_check, keyed_assets
from assets.plots.weather import plot_averages
from assets.streams import stream_assets, stream_check
from spark_jobs.jobs.moving_averages import MOVING_AVERAGES
from spark_jobs.streams import WEATHER

GROUP = "weather"
OWNERS = ("team:weather",)
STREAM = WEATHER
JOBS = (MOVING_AVERAGES,)

_AVERAGES = {
    "station_id": "Station that took the readings",
    "start_time": "Event time of the window's first reading (UTC)",
    "end_time": "Event time of its last reading, which the row came with (UTC)",
    "pressure_avg": "Mean pressure of the window's readings that have one, hPa; NULL where none has",
    "temp_avg": "Mean temperature of the window's readings that have one, °F; NULL where none has",
    "n_readings": "Readings in the window",
    "reason": "WINDOW_FULL with N readings, WINDOW_FILLING before, TIMEOUT where the station fell silent before its first row",
}

_MADE_OF = {
    "station_id": ("station_id",),
    "start_time": ("time",),
    "end_time": ("time",),
    "pressure_avg": ("pressure", "time"),
    "temp_avg": ("temp", "time"),
    "n_readings": ("time",),
    "reason": ("time",),
}

ASSETS = [
    *stream_assets(
        WEATHER,
        group=GROUP,
        owners=OWNERS,
        description="Valid readings of weather stations, each once: typed, checked, de-duplicated by station and hour.",
    ),
    keyed_assets(
        MOVING_AVERAGES,
        group=GROUP,
        owners=OWNERS,
        tables={
            "moving_averages": TableDoc(MOVING_AVERAGES.description, _AVERAGES, _MADE_OF),
            "latest_moving_averages": TableDoc("The latest row of each station.", _AVERAGES, _MADE_OF),
            "station_sessions": TableDoc(
                "One row a stretch of readings without a silence longer than `timeout`, when it has ended.",
                {
                    "station_id": "Station that took the readings",
                    "start_time": "Event time of the first reading (UTC)",
                    "end_time": "Event time of the last reading (UTC)",
                    "n_readings": "Readings in all",
                    "reason": "TIMEOUT: the station fell silent",
                },
                dict.fromkeys(("start_time", "end_time", "n_readings", "reason"), ("time",))
                | {"station_id": ("station_id",)},
            ),
        },
        plot=plot_averages,
    ),
]

CHECKS = [stream_check(WEATHER), conservation_check(MOVING_AVERAGES)]
