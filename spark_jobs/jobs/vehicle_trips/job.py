"""Vehicle trips: one row a trip, from the moment a vehicle moves until it has stood still or fallen silent.

By the points of a vehicle in event time:

- A point moves if its speed is above `moving_speed`; else it stands. A trip opens at the first point that moves.
- It ends at the first standing point after which no point moves for `stop_after` (`STOPPED`: it arrived there), or at
  its last point where the vehicle says nothing for longer than `silence` before that (`FELL_SILENT`). Shorter stands are
  part of the trip.
- A trip's points are those from the first to the last that moves. The standing points around trips make stops: one row
  in `vehicle_stops` from arrival to departure (`MOVED_ON`) or to the last point before a silence (`FELL_SILENT`). So
  each point is counted in one trip or in one stop. The way from a trip's last moving point to its arrival is the trip's.

State holds, a vehicle, the points that the watermark has not passed, and of all it has passed one or two sums (a
*stretch*: an open trip, a stand): never the points themselves. Distance, time and fuel are summed in whole micrometres,
microseconds and microlitres, so that sums are the same in whatever parts they were made. Hard braking and acceleration
are counted by points that tell of it, each by its own acceleration, the arrival's among them.

A point at or behind the watermark is late, whatever state its vehicle has. All else follows from event time alone: any
order of arrival within `watermark_delay` and any split into micro-batches give the same trips.

With `timeout_in=processing_time` a vehicle falls silent when no run has brought a point of it for `silence`, however far
apart its points lie in event time: those that wait are followed first, then its trip and its stop end, and a point that
comes then begins anew (`keyed.timeouts`).
"""

from datetime import timedelta
from functools import partial

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import Clock, JobTemplate, KeyedJob, OutputTable, Step, column, required
from keyfold.keyed.job import Duration, Timeout
from keyfold.keyed.rows.codec import empty, polars_schema
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.expiry import SilentParameters
from spark_jobs.jobs.vehicle_trips.journeys import Limits, cut
from spark_jobs.jobs.vehicle_trips.stretches import STRETCH
from spark_jobs.streams import TELEMETRY

_PLACE = ("latitude", "longitude", "time")
_MOTION = ("speed", "time")
_ITS_POINTS = "of its points and its arrival"

VEHICLE_TRIP = pa.schema(
    [
        required("trip_id", pa.string(), "Vehicle and start time; the same in every replay", made_of="vehicle_id time"),
        required("vehicle_id", pa.string(), "The vehicle", made_of="vehicle_id"),
        required("start_time", TIMESTAMP, "Event time of the first point that moves (UTC)", made_of=_MOTION),
        required(
            "end_time",
            TIMESTAMP,
            "Event time of the arrival, the first point of the stop; of a trip that fell silent, its last point (UTC)",
            made_of=_MOTION,
        ),
        required("start_latitude", pa.float64(), "Where it began", unit="degrees north", made_of=_PLACE),
        required("start_longitude", pa.float64(), "Where it began", unit="degrees east", made_of=_PLACE),
        required("end_latitude", pa.float64(), "Where it ended", unit="degrees north", made_of=_PLACE),
        required("end_longitude", pa.float64(), "Where it ended", unit="degrees east", made_of=_PLACE),
        required(
            "distance_in_metres",
            pa.float64(),
            "Sum of the great-circle legs between its points",
            unit="metres",
            made_of=_PLACE,
        ),
        required("moving_seconds", pa.float64(), "Time after points that move", unit="seconds", made_of=_MOTION),
        required(
            "idle_seconds",
            pa.float64(),
            "Time after points that stand, in pauses shorter than `stop_after`",
            unit="seconds",
            made_of=_MOTION,
        ),
        column(
            "average_speed",
            pa.float64(),
            "Distance over the whole time; NULL for a trip of one moment",
            unit="km/h",
            made_of="latitude longitude time speed",
        ),
        required("top_speed", pa.float64(), "Highest speed told", unit="km/h", made_of="speed"),
        column(
            "fuel_used",
            pa.float64(),
            "Falls from one fuel reading to the next; NULL without a reading",
            unit="litres",
            made_of="fuel_level time",
        ),
        column(
            "litres_per_100_km",
            pa.float64(),
            "Fuel used over the distance; NULL without a reading or a distance",
            unit="litres/100 km",
            made_of=("fuel_level", *_PLACE),
        ),
        column(
            "harsh_braking",
            pa.int64(),
            f"How many {_ITS_POINTS} brake by `harsh_braking` or more; NULL where none tells its acceleration",
            made_of="acceleration",
        ),
        column(
            "harsh_acceleration",
            pa.int64(),
            f"How many {_ITS_POINTS} accelerate by `harsh_acceleration` or more; NULL where none tells its acceleration",
            made_of="acceleration",
        ),
        column(
            "highest_engine_temperature",
            pa.float64(),
            f"The highest {_ITS_POINTS}; NULL where none tells it",
            unit="°C",
            made_of="engine_temperature",
        ),
        required("n_points", pa.int64(), "Points from the first to the last that moves", made_of="time"),
        required("reason", pa.string(), "STOPPED, or FELL_SILENT", made_of=_MOTION),
    ]
)

VEHICLE_STOP = pa.schema(
    [
        required("vehicle_id", pa.string(), "The vehicle", made_of="vehicle_id"),
        required("start_time", TIMESTAMP, "When it came to stand (UTC)", made_of=_MOTION),
        required("end_time", TIMESTAMP, "When it moved on, or was last heard of (UTC)", made_of=_MOTION),
        required("latitude", pa.float64(), "Where it stood", unit="degrees north", made_of="latitude"),
        required("longitude", pa.float64(), "Where it stood", unit="degrees east", made_of="longitude"),
        required("n_points", pa.int64(), "Standing points in it; none of them is counted in a trip", made_of="time"),
        required("reason", pa.string(), "MOVED_ON, or FELL_SILENT", made_of=_MOTION),
    ]
)


class VehicleTripParameters(SilentParameters):
    """Parameters of `vehicle_trips`."""

    moving_speed: float = Field(3.0, ge=0, description="Speed in km/h above which a vehicle moves")
    stop_after: Duration = Field(timedelta(minutes=5), description="Event time of standing still that ends a trip")
    silence: Duration = Field(
        timedelta(minutes=30), description="Time without a point after which a trip, or a stop, has ended"
    )
    harsh_braking: float = Field(
        3.5, gt=0, description="m/s² by which a point that brakes hard is slowed down at least"
    )
    harsh_acceleration: float = Field(3.0, gt=0, description="m/s² by which a point accelerates hard at least")

    @property
    def timeout(self) -> Timeout:
        """What ends the trip, or the stop, of a vehicle of which nothing is heard."""
        return Timeout(self.silence, self.timeout_in)


_KEY = ("vehicle_id",)

_FROM_HERE_ON = frozenset(
    {"moving_speed", "stop_after", "silence", "timeout_in", "harsh_braking", "harsh_acceleration"}
)
"""Parameters that count from here on: whether a point moves, or is a hard one, was said when it came; what ends a trip or a stop is asked of
what is known of it whenever its vehicle is looked at, at the latest when it would have ended before.
"""


def build(parameters: VehicleTripParameters) -> KeyedJob:
    """Make the job of its parameters."""
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
                description="One row a stand between trips, when it has ended.",
            ),
        ),
        output_events=pl.col("n_points").sum(),
        state_events=pl.col("n_points").sum(),
        # An open trip; beside it there may be a stand, which may be its end.
        one_per_key=pl.col("end_time").is_not_null() & pl.col("is_moving"),
        **parameters.settings(),
        movable_parameters=_FROM_HERE_ON,
    )


VEHICLE_TRIPS = JobTemplate(
    "vehicle_trips",
    "One row a trip of a vehicle: when and where it went, how far, how fast, on how much fuel, how it ended.",
    VehicleTripParameters,
    build,
)


def follow(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: VehicleTripParameters) -> Step:
    """The step: see the module's text. Every point waits, is counted in a trip or a stop, open or told, or is late."""
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
    """Points as rows of state that wait for the watermark: stretches without an end as yet."""
    # What is no number of litres counts as no reading.
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
    schema = polars_schema(STRETCH)
    rest = {name: pl.lit(None, kind) for name, kind in schema.items() if name not in known.columns}
    return known.with_columns(**rest).select(schema.keys())


def _is_hard(acceleration: pl.Expr, limit: float) -> pl.Expr:
    """1 or 0, NULL where nothing is told."""
    return (acceleration.fill_nan(None) >= limit).cast(pl.Int64)
