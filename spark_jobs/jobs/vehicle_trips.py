"""Find trips of vehicles: one row per trip, from the first moving point until the vehicle has stopped or fallen silent.

By a vehicle's points in event time:

- A point is moving if its speed is above `moving_speed`; else it is standing. A trip starts at the first moving point.
- It ends at the first standing point after which no point is moving for `stop_after` (`STOPPED`: the arrival), or, if the
  vehicle sends no point for longer than `silence` before that, at its last point (`FELL_SILENT`). Shorter stands are part of
  the trip.
- A trip's points are those from the first to the last moving point. The standing points around trips are stops: one row in
  `vehicle_stops`, from arrival to departure (`MOVED_ON`) or to the last point before a silence (`FELL_SILENT`). So each point
  is counted in one trip or one stop. The way from a trip's last moving point to its arrival belongs to the trip.

For each vehicle, state has one row with the sums of what the watermark has passed (an open trip or stand), the standing points
that may be a pause of the trip, and the points that the watermark has not passed (`sessions` with `While`). Distance, time and fuel
are summed in whole micrometres, microseconds and microlitres, so that the order of summing does not matter. Hard braking and
acceleration are counted by the points' accelerations, the arrival's included.

A point at or behind the watermark is late, whatever the state of its vehicle. Everything else depends only on event time: any
order of arrival within `delay` and any batch boundaries give the same trips.

With `timeout_in=processing_time`, a vehicle is silent when no run has brought a point of it for `silence`, whatever the points'
event times. Its waiting points are processed first, then its trip and its stop end; a later point starts again.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa

from keyfold import TIMESTAMP, Append, Duration, Input, KeyedJob, Timeout, column, parameter, required, with_parameters
from keyfold.operators import While, count, divided, first, last, max, over_pairs, sessions, sum, sum_of_decreases
from keyfold.times import ISO_FORMAT
from spark_jobs.jobs.motion import leg_in_micrometres
from spark_jobs.jobs.silence import SilentParameters
from spark_jobs.streams import TELEMETRY

_AXES = ("latitude", "longitude")
_ITS_POINTS = "of its points and its arrival"

VEHICLE_TRIP = pa.schema(
    [
        required("trip_id", pa.string(), "Vehicle and start time; the same in every replay"),
        required("vehicle_id", pa.string(), "The vehicle"),
        required("start_time", TIMESTAMP, "Event time of the first point that moves (UTC)"),
        required(
            "end_time",
            TIMESTAMP,
            "Event time of the arrival, the first point of the stop (UTC); of the last point, if the vehicle fell silent",
        ),
        required("start_latitude", pa.float64(), "Where it began", unit="degrees north"),
        required("start_longitude", pa.float64(), "Where it began", unit="degrees east"),
        required("end_latitude", pa.float64(), "Where it ended", unit="degrees north"),
        required("end_longitude", pa.float64(), "Where it ended", unit="degrees east"),
        required("distance_in_metres", pa.float64(), "Sum of the great-circle legs between its points", unit="metres"),
        required("moving_seconds", pa.float64(), "Time after points that move", unit="seconds"),
        required("idle_seconds", pa.float64(), "Time in pauses of trips, shorter than `stop_after`", unit="seconds"),
        column(
            "average_speed", pa.float64(), "Distance divided by duration; NULL if the duration is zero", unit="km/h"
        ),
        required("top_speed", pa.float64(), "Highest speed of its points", unit="km/h"),
        column(
            "fuel_used",
            pa.float64(),
            "Sum of falls between consecutive fuel readings; NULL without a reading",
            unit="litres",
        ),
        column(
            "litres_per_100_km",
            pa.float64(),
            "Fuel used divided by distance; NULL without a reading or a distance",
            unit="litres/100 km",
        ),
        column(
            "harsh_braking",
            pa.int64(),
            f"Number {_ITS_POINTS} that brake by `harsh_braking` or more; NULL if none has an acceleration",
        ),
        column(
            "harsh_acceleration",
            pa.int64(),
            f"Number {_ITS_POINTS} that accelerate by `harsh_acceleration` or more; NULL if none has an acceleration",
        ),
        column(
            "highest_engine_temperature", pa.float64(), f"Highest value {_ITS_POINTS}; NULL if none has one", unit="°C"
        ),
        required("n_points", pa.int64(), "Points from the first to the last that moves"),
        required("reason", pa.string(), "STOPPED, or FELL_SILENT"),
    ]
)

VEHICLE_STOP = pa.schema(
    [
        required("vehicle_id", pa.string(), "The vehicle"),
        required("start_time", TIMESTAMP, "When it stopped (UTC)"),
        required("end_time", TIMESTAMP, "When it moved on; or its last point before a silence (UTC)"),
        required("latitude", pa.float64(), "Where it stood", unit="degrees north"),
        required("longitude", pa.float64(), "Where it stood", unit="degrees east"),
        required("n_points", pa.int64(), "Standing points in it; none of them is counted in a trip"),
        required("reason", pa.string(), "MOVED_ON, or FELL_SILENT"),
    ]
)


class VehicleTripParameters(SilentParameters):
    """Parameters of `vehicle_trips`."""

    # Open trips and stops end by the new values, at the latest when the old ones would have ended them; points that the
    # watermark has passed keep what they counted for.
    moving_speed: float = parameter(
        3.0, ge=0, description="Speed in km/h above which a vehicle moves", change="migrate"
    )
    stop_after: Duration = parameter(
        timedelta(minutes=5), description="Event time without movement that ends a trip", change="migrate"
    )
    silence: Duration = parameter(
        timedelta(minutes=30), description="Time without a point after which a trip or a stop ends", change="migrate"
    )
    harsh_braking: float = parameter(
        3.5, gt=0, description="Deceleration in m/s² from which a point brakes hard", change="migrate"
    )
    harsh_acceleration: float = parameter(
        3.0, gt=0, description="Acceleration in m/s² from which a point accelerates hard", change="migrate"
    )


_HARSH = ("harsh_braking", "harsh_acceleration")


def build(parameters: VehicleTripParameters) -> KeyedJob:
    """One row per trip of a vehicle: start, end, distance, speed, fuel, and why it ended."""
    moves, took = pl.col("speed") > parameters.moving_speed, pl.col("time").diff().dt.total_microseconds()
    braking, accelerating = -pl.col("acceleration"), pl.col("acceleration")
    micros, metres = (pl.col("end_time") - pl.col("start_time")).dt.total_microseconds(), pl.col("distance")
    # Micrometres over microseconds are metres per second; microlitres over micrometres are litres over metres.
    speed, used = metres / micros.clip(1) * 3.6, pl.col("fuel_used") / metres.clip(1) * 1e5
    reason = pl.when(~pl.col("ended")).then(pl.lit("FELL_SILENT")).when("holds").then(pl.lit("STOPPED"))
    stops = Append(
        VEHICLE_STOP,
        name="vehicle_stops",
        events=pl.col("n_points").sum(),
        description="One row per ended stop between trips.",
    )
    return sessions(
        "vehicle_trips",
        Input(TELEMETRY, columns=TELEMETRY.schema.names),
        {
            "start_time": first("time"),
            "end_time": last("time"),
            **{f"start_{axis}": first(axis) for axis in _AXES},
            **{f"end_{axis}": last(axis) for axis in _AXES},
            "distance": over_pairs(leg_in_micrometres(*_AXES)),
            "moving": over_pairs(pl.when(moves.shift()).then(took).otherwise(0)),
            "idle": over_pairs(pl.when(moves.shift()).then(0).otherwise(took)),
            "top_speed": max("speed"),
            # Infinity counts as no reading.
            "fuel_used": sum_of_decreases((pl.col("fuel_level") * 1e6).round().cast(pl.Int64, strict=False)),
            "harsh_braking": sum((braking >= parameters.harsh_braking).cast(pl.Int64)),
            "harsh_acceleration": sum((accelerating >= parameters.harsh_acceleration).cast(pl.Int64)),
            "n_accelerations": count(pl.col("acceleration").is_not_null()),
            "highest_engine_temperature": max("engine_temperature"),
            "n_points": count(),
        },
        while_=While(moves, parameters.stop_after, stops),
        key="vehicle_id",
        output=VEHICLE_TRIP,
        gap=Timeout(parameters.silence, parameters.timeout_in),
        then={
            "trip_id": pl.format("{}@{}", "vehicle_id", pl.col("start_time").dt.strftime(ISO_FORMAT)),
            "latitude": pl.col("start_latitude"),
            "longitude": pl.col("start_longitude"),
            "distance_in_metres": divided(metres, 1e6),
            "moving_seconds": divided(pl.col("moving"), 1e6),
            "idle_seconds": divided(pl.col("idle"), 1e6),
            "average_speed": pl.when(micros > 0).then(speed),
            "fuel_used": divided(pl.col("fuel_used"), 1e6),
            **{name: pl.when(pl.col("n_accelerations") > 0).then(pl.col(name)) for name in _HARSH},
            "litres_per_100_km": pl.when(metres > 0).then(used),
            "reason": reason.otherwise(pl.lit("MOVED_ON")),
        },
    )


VEHICLE_TRIPS = with_parameters(build)
