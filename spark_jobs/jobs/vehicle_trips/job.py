"""Find trips of vehicles: one row per trip, from the first moving point until the vehicle has stopped or fallen silent.

By a vehicle's points in event time:

- A point is moving if its speed is above `moving_speed`; else it is standing. A trip starts at the first moving point.
- It ends at the first standing point after which no point is moving for `stop_after` (`STOPPED`: the arrival), or, if the
  vehicle sends no point for longer than `silence` before that, at its last point (`FELL_SILENT`). Shorter stands are part of
  the trip.
- A trip's points are those from the first to the last moving point. The standing points around trips are stops: one row in
  `vehicle_stops`, from arrival to departure (`MOVED_ON`) or to the last point before a silence (`FELL_SILENT`). So each point
  is counted in one trip or one stop. The way from a trip's last moving point to its arrival belongs to the trip.

For each vehicle, state has the points that the watermark has not passed, and one or two sums of the passed points (a *stretch*:
an open trip, a stand), never the points themselves. Distance, time and fuel are summed in whole micrometres, microseconds and
microlitres, so that the order of summing does not matter. Hard braking and acceleration are counted by the points'
accelerations, the arrival's included.

A point at or behind the watermark is late, whatever the state of its vehicle. Everything else depends only on event time: any
order of arrival within `watermark_delay` and any batch boundaries give the same trips.

With `timeout_in=processing_time`, a vehicle is silent when no run has brought a point of it for `silence`, whatever the points'
event times. Its waiting points are processed first, then its trip and its stop end; a later point starts again
(`keyed.timeouts`).
"""

from datetime import timedelta
from functools import partial

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import Clock, JobTemplate, KeyedJob, OutputTable, Step, column, required
from keyfold.keyed.job import Duration, Timeout
from keyfold.keyed.rows.codec import empty
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.motion import FUEL_USED, IDLE_SECONDS, MOTION, MOVING_SECONDS, PLACE
from spark_jobs.jobs.silence import SilentParameters
from spark_jobs.jobs.vehicle_trips.journeys import Limits, cut
from spark_jobs.jobs.vehicle_trips.stretches import STRETCH
from spark_jobs.streams import TELEMETRY

_ITS_POINTS = "of its points and its arrival"

VEHICLE_TRIP = pa.schema(
    [
        required("trip_id", pa.string(), "Vehicle and start time; the same in every replay", made_of="vehicle_id time"),
        required("vehicle_id", pa.string(), "The vehicle", made_of="vehicle_id"),
        required("start_time", TIMESTAMP, "Event time of the first point that moves (UTC)", made_of=MOTION),
        required(
            "end_time",
            TIMESTAMP,
            "Event time of the arrival, the first point of the stop (UTC); of the last point, if the vehicle fell silent",
            made_of=MOTION,
        ),
        required("start_latitude", pa.float64(), "Where it began", unit="degrees north", made_of=PLACE),
        required("start_longitude", pa.float64(), "Where it began", unit="degrees east", made_of=PLACE),
        required("end_latitude", pa.float64(), "Where it ended", unit="degrees north", made_of=PLACE),
        required("end_longitude", pa.float64(), "Where it ended", unit="degrees east", made_of=PLACE),
        required(
            "distance_in_metres",
            pa.float64(),
            "Sum of the great-circle legs between its points",
            unit="metres",
            made_of=PLACE,
        ),
        MOVING_SECONDS,
        IDLE_SECONDS,
        column(
            "average_speed",
            pa.float64(),
            "Distance divided by duration; NULL if the duration is zero",
            unit="km/h",
            made_of="latitude longitude time speed",
        ),
        required("top_speed", pa.float64(), "Highest speed of its points", unit="km/h", made_of="speed"),
        FUEL_USED,
        column(
            "litres_per_100_km",
            pa.float64(),
            "Fuel used divided by distance; NULL without a reading or a distance",
            unit="litres/100 km",
            made_of=("fuel_level", *PLACE),
        ),
        column(
            "harsh_braking",
            pa.int64(),
            f"Number {_ITS_POINTS} that brake by `harsh_braking` or more; NULL if none has an acceleration",
            made_of="acceleration",
        ),
        column(
            "harsh_acceleration",
            pa.int64(),
            f"Number {_ITS_POINTS} that accelerate by `harsh_acceleration` or more; NULL if none has an acceleration",
            made_of="acceleration",
        ),
        column(
            "highest_engine_temperature",
            pa.float64(),
            f"Highest value {_ITS_POINTS}; NULL if none has one",
            unit="°C",
            made_of="engine_temperature",
        ),
        required("n_points", pa.int64(), "Points from the first to the last that moves", made_of="time"),
        required("reason", pa.string(), "STOPPED, or FELL_SILENT", made_of=MOTION),
    ]
)

VEHICLE_STOP = pa.schema(
    [
        required("vehicle_id", pa.string(), "The vehicle", made_of="vehicle_id"),
        required("start_time", TIMESTAMP, "When it stopped (UTC)", made_of=MOTION),
        required("end_time", TIMESTAMP, "When it moved on; or its last point before a silence (UTC)", made_of=MOTION),
        required("latitude", pa.float64(), "Where it stood", unit="degrees north", made_of="latitude"),
        required("longitude", pa.float64(), "Where it stood", unit="degrees east", made_of="longitude"),
        required("n_points", pa.int64(), "Standing points in it; none of them is counted in a trip", made_of="time"),
        required("reason", pa.string(), "MOVED_ON, or FELL_SILENT", made_of=MOTION),
    ]
)


class VehicleTripParameters(SilentParameters):
    """Parameters of `vehicle_trips`."""

    moving_speed: float = Field(3.0, ge=0, description="Speed in km/h above which a vehicle moves")
    stop_after: Duration = Field(timedelta(minutes=5), description="Event time without movement that ends a trip")
    silence: Duration = Field(
        timedelta(minutes=30), description="Time without a point after which a trip or a stop ends"
    )
    harsh_braking: float = Field(3.5, gt=0, description="Deceleration in m/s² from which a point brakes hard")
    harsh_acceleration: float = Field(3.0, gt=0, description="Acceleration in m/s² from which a point accelerates hard")

    @property
    def timeout(self) -> Timeout:
        """The timeout that ends the trip or stop of a silent vehicle."""
        return Timeout(self.silence, self.timeout_in)


_KEY = ("vehicle_id",)

_MOVABLE_PARAMETERS = frozenset(
    {"moving_speed", "stop_after", "silence", "timeout_in", "harsh_braking", "harsh_acceleration"}
)
"""Parameters that a move can change: whether a point moves, brakes or accelerates hard was decided when it arrived; open trips
and stops end by the new rules, at the latest when the old rules would have ended them.
"""


def build(parameters: VehicleTripParameters) -> KeyedJob:
    """One row per trip of a vehicle: start, end, distance, speed, fuel, and why it ended."""
    return KeyedJob(
        name="vehicle_trips",
        stream=TELEMETRY,
        key=_KEY,
        event_time="time",
        events=TELEMETRY.schema,
        state=parameters.timeout.add_column(STRETCH),
        output=VEHICLE_TRIP,
        step=partial(follow, parameters=parameters),
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                "vehicle_stops",
                VEHICLE_STOP,
                events=pl.col("n_points").sum(),
                description="One row per ended stop between trips.",
            ),
        ),
        output_events=pl.col("n_points").sum(),
        state_events=pl.col("n_points").sum(),
        # A vehicle has at most one open trip; beside it may be a stand, which may become its end.
        one_per_key=pl.col("end_time").is_not_null() & pl.col("is_moving"),
        **parameters.settings(),
        movable_parameters=_MOVABLE_PARAMETERS,
    )


VEHICLE_TRIPS = JobTemplate("vehicle_trips", VehicleTripParameters, build)


def follow(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: VehicleTripParameters) -> Step:
    """Run the step: every point waits, is counted in an open or ended trip or stop, or is late."""
    is_late = events["time"] <= clock.late_watermark
    late, on_time = events.filter(is_late), events.filter(~is_late)
    timeout = parameters.timeout
    limits = Limits(parameters.stop_after, parameters.silence if timeout.in_event_time else None, clock.watermark)
    over, going_on = timeout.part(state, _KEY, clock)
    cuts = [cut(over.select(STRETCH.names), limits._replace(is_over=True))] if over.height else []
    rows = pl.concat([going_on.select(STRETCH.names), _waiting(on_time, parameters)])
    is_due = (rows["deadline"] <= clock.watermark).fill_null(value=False)
    if is_due.any():
        waits = rows["end_time"].is_null() & ~is_due
        cuts.append(cut(rows.filter(~waits), limits))
        rows = pl.concat([cuts[-1].still_open, rows.filter(waits)])
    return Step(
        state=timeout.renew(rows, going_on, on_time, _KEY, clock),
        output=pl.concat([empty(VEHICLE_TRIP), *(one.trips.select(VEHICLE_TRIP.names) for one in cuts)]),
        late=late,
        side={
            "vehicle_stops": pl.concat([empty(VEHICLE_STOP), *(one.stops.select(VEHICLE_STOP.names) for one in cuts)])
        },
    )


def _waiting(points: pl.DataFrame, parameters: VehicleTripParameters) -> pl.DataFrame:
    """Convert points to rows of state that wait for the watermark: stretches without an end."""
    # NaN and infinity count as no reading.
    fuel = (pl.col("fuel_level") * 1e6).round().cast(pl.Int64, strict=False)
    known = points.select(
        "vehicle_id",
        start_time="time",
        start_latitude="latitude",
        start_longitude="longitude",
        is_moving=pl.col("speed") > parameters.moving_speed,
        top_speed="speed",
        start_fuel=fuel,
        start_braking=_is_hard(-pl.col("acceleration"), parameters.harsh_braking),
        start_accelerating=_is_hard(pl.col("acceleration"), parameters.harsh_acceleration),
        start_heat=pl.col("engine_temperature").fill_nan(None),
        n_points=pl.lit(1, pl.Int64),
        deadline="time",
    )
    return pl.concat([empty(STRETCH), known], how="diagonal")


def _is_hard(acceleration: pl.Expr, limit: float) -> pl.Expr:
    """Return 1 or 0, NULL if the acceleration is missing."""
    return (acceleration.fill_nan(None) >= limit).cast(pl.Int64)
