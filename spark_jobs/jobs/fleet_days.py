"""Sum kilometres, trips, moving and idle time and fuel of each vehicle and calendar day.

Windows (`windows`) of the table of `vehicle_trips`: a trip counts on the day on which it ends, by the calendar of `timezone`.
Days have 23 or 25 hours when clocks are set. The row of a day is written with each of its trips, and is open (`is_open`) until
the watermark has passed the day's end. `vehicle_trips` writes a trip when it is over, so its end is behind that job's watermark
by up to `delay`. A trip of a day that has closed goes to `late.fleet_days`. State is one row per vehicle and open day.
Sums are of whole numbers, so that no row depends on order or batch boundaries.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import TIMESTAMP, Delay, EventTimeParameters, Input, KeyedJob, column, required, with_parameters
from keyfold.operators import Calendar, Lateness, TimeZone, count, divided, sum, windows
from spark_jobs.jobs.vehicle_trips import VEHICLE_TRIPS

FLEET_DAY = pa.schema(
    [
        required("vehicle_id", pa.string(), "The vehicle"),
        required("day", pa.date32(), "The day, by the calendar of `timezone`"),
        required("window_start", TIMESTAMP, "When the day begins (UTC)"),
        required("kilometres", pa.float64(), "Distance of the trips", unit="km"),
        required("trips", pa.int64(), "Trips that end on the day"),
        required("moving_seconds", pa.float64(), "Moving time of the trips", unit="seconds"),
        required("idle_seconds", pa.float64(), "Time in pauses of the trips", unit="seconds"),
        column("fuel_used", pa.float64(), "Fuel that the trips used; NULL without a reading", unit="litres"),
        required("is_open", pa.bool_(), "Whether more may come to it"),
    ]
)


class FleetDaysParameters(EventTimeParameters):
    """Parameters of `fleet_days`."""

    timezone: TimeZone = Field("UTC", description="Whose days they are: an IANA name, such as Europe/Berlin")
    delay: Delay = Field(
        timedelta(minutes=30),
        description="How far a trip's end may be behind the watermark of vehicle_trips: the longer of its stop_after and silence",
    )


def build(parameters: FleetDaysParameters) -> KeyedJob:
    """One row a vehicle and day: kilometres, trips, moving and idle time, fuel used; open days are marked."""
    return windows(
        "fleet_days",
        Input(VEHICLE_TRIPS.table(), at="end_time"),
        {
            "distance": sum(_whole("distance_in_metres")),
            "moving": sum(_whole("moving_seconds")),
            "idle": sum(_whole("idle_seconds")),
            "fuel": sum(_whole("fuel_used")),
            "n_readings": count(pl.col("fuel_used").is_not_null()),
        },
        key="vehicle_id",
        length=Calendar("day", parameters.timezone),
        lateness=Lateness(while_open=True),
        counted="trips",
        output=FLEET_DAY,
        then={
            "day": pl.col("window_start").dt.convert_time_zone(parameters.timezone).dt.date(),
            "kilometres": divided(pl.col("distance"), 1e9),
            "moving_seconds": divided(pl.col("moving"), 1e6),
            "idle_seconds": divided(pl.col("idle"), 1e6),
            "fuel_used": pl.when(pl.col("n_readings") > 0).then(divided(pl.col("fuel"), 1e6)),
        },
    )


def _whole(name: str) -> pl.Expr:
    """Return millionths of a value, which trips have in whole ones: sums of them do not depend on their order."""
    return (pl.col(name) * 1e6).round().cast(pl.Int64)


FLEET_DAYS = with_parameters(build)
