"""The fleet: points of vehicles as they are sent, their trips, and their stops."""

from assets.keyed_asset import TableDoc, conservation_check, keyed_assets
from assets.streams import stream_assets, stream_check
from spark_jobs.jobs.vehicle_trips.job import VEHICLE_TRIPS
from spark_jobs.streams import TELEMETRY

GROUP = "fleet"
OWNERS = ("team:fleet",)
STREAM = TELEMETRY
JOBS = (VEHICLE_TRIPS,)

_PLACE = ("latitude", "longitude", "time")
_SPEED = ("speed", "time")

ASSETS = [
    *stream_assets(
        TELEMETRY,
        group=GROUP,
        owners=OWNERS,
        description="Valid points of vehicles, each once: typed, checked, de-duplicated by vehicle and time.",
    ),
    keyed_assets(
        VEHICLE_TRIPS,
        group=GROUP,
        owners=OWNERS,
        tables={
            "vehicle_trips": TableDoc(
                VEHICLE_TRIPS.description,
                {
                    "trip_id": "Vehicle and start time; the same in every replay",
                    "vehicle_id": "The vehicle",
                    "start_time": "Event time of the first point that moves (UTC)",
                    "end_time": "Event time of the arrival, the first point of the stop; of a trip that fell silent, its last point (UTC)",
                    "start_latitude": "Where it began, degrees north",
                    "start_longitude": "Where it began, degrees east",
                    "end_latitude": "Where it ended, degrees north",
                    "end_longitude": "Where it ended, degrees east",
                    "distance_in_metres": "Sum of the great-circle legs between its points",
                    "moving_seconds": "Time after points that move, in seconds",
                    "idle_seconds": "Time after points that stand, in pauses shorter than `stop_after`, in seconds",
                    "average_speed": "Distance over the whole time, km/h; NULL for a trip of one moment",
                    "top_speed": "Highest speed told, km/h",
                    "fuel_used": "Falls from one fuel reading to the next, litres; NULL without a reading",
                    "n_points": "Points from the first to the last that moves",
                    "reason": "STOPPED, or FELL_SILENT",
                },
                {
                    "trip_id": ("vehicle_id", "time"),
                    "vehicle_id": ("vehicle_id",),
                    "start_time": _SPEED,
                    "end_time": _SPEED,
                    "start_latitude": _PLACE,
                    "start_longitude": _PLACE,
                    "end_latitude": _PLACE,
                    "end_longitude": _PLACE,
                    "distance_in_metres": _PLACE,
                    "moving_seconds": _SPEED,
                    "idle_seconds": _SPEED,
                    "average_speed": (*_PLACE, "speed"),
                    "top_speed": ("speed",),
                    "fuel_used": ("fuel_level", "time"),
                    "n_points": ("time",),
                    "reason": _SPEED,
                },
            ),
            "vehicle_stops": TableDoc(
                "One row a stand between trips, when it has ended.",
                {
                    "vehicle_id": "The vehicle",
                    "start_time": "When it came to stand (UTC)",
                    "end_time": "When it moved on, or was last heard of (UTC)",
                    "latitude": "Where it stood, degrees north",
                    "longitude": "Where it stood, degrees east",
                    "n_points": "Standing points in it; none of them is counted in a trip",
                    "reason": "MOVED_ON, or FELL_SILENT",
                },
                {
                    "vehicle_id": ("vehicle_id",),
                    "start_time": _SPEED,
                    "end_time": _SPEED,
                    "latitude": ("latitude",),
                    "longitude": ("longitude",),
                    "n_points": ("time",),
                    "reason": _SPEED,
                },
            ),
        },
    ),
]

CHECKS = [stream_check(TELEMETRY), conservation_check(VEHICLE_TRIPS)]
