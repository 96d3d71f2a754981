"""Fleet days: one row a vehicle and day, with what the vehicle did that day: kilometres, trips, idle time, fuel.

What moves, what a trip is and what a pause of it, is as `vehicle_trips` has it with the same parameters; so all the days
of a vehicle together have its trips' kilometres, moving and idle seconds, and as many trips as there are, each counted on
the day on which it starts.

- **Kilometres** are the great-circle legs of trips: those that begin at a point that moves, and those of pauses.
- **Moving** is the time after points that move. **Idle** is standing with the engine on, as far as points tell: in pauses
  of a trip, shorter than `stop_after`. **Stopped** is standing between trips while points keep coming. What lies
  between two points more than `silence` apart is none of these: nobody knows.
- **A leg over midnight is split there**: its time as it lies, its metres in proportion to its time. A fall of the fuel
  level counts on the day of the reading that shows it, also while standing; what is filled in counts nowhere.
- **Days are those of `timezone`**, UTC unless told otherwise: they have 23 or 25 hours where clocks are set.

Points wait in state until the watermark has passed them; then they are added to their day's sums, all whole numbers. Of
what has passed, only a vehicle's last point is kept, and those of a stand that may yet be a pause. The row of a day shows
what the watermark has passed. It is open (`is_open`) until the watermark is `silence` or `stop_after` (the longer) past
the day's end: by then all legs, pauses and trips of the day are known. Then it is written for the last time and leaves state.

A point at or behind the watermark is late, whatever state its vehicle has. All else follows from event time alone: any
order of arrival within `watermark_delay` and any split into micro-batches lead to the same rows.
"""

from datetime import timedelta
from functools import partial

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import Clock, JobTemplate, KeyedJob, Step, column, required
from keyfold.keyed.job import Duration, EventTimeParameters
from keyfold.keyed.rows.codec import empty
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.fleet_days.days import TimeZone
from spark_jobs.jobs.fleet_days.ledger import FLEET_STATE, Limits, add_to_days
from spark_jobs.streams import TELEMETRY

_PLACE = ("latitude", "longitude", "time")
_MOTION = ("speed", "time")

POINT = pa.schema(
    [TELEMETRY.schema.field(name) for name in ("vehicle_id", "time", "latitude", "longitude", "speed", "fuel_level")]
)

FLEET_DAY = pa.schema(
    [
        required("vehicle_id", pa.string(), "The vehicle", made_of="vehicle_id"),
        required("day", pa.date32(), "The day, by the calendar of `timezone`", made_of="time"),
        required("day_start", TIMESTAMP, "When the day begins (UTC)", made_of="time"),
        required(
            "kilometres",
            pa.float64(),
            "Great-circle legs of trips; one over midnight is split in proportion to its time",
            unit="km",
            made_of=(*_PLACE, "speed"),
        ),
        required("trips", pa.int64(), "Trips that start on the day", made_of=_MOTION),
        required("moving_seconds", pa.float64(), "Time after points that move", unit="seconds", made_of=_MOTION),
        required(
            "idle_seconds",
            pa.float64(),
            "Time standing in pauses of trips, shorter than `stop_after`",
            unit="seconds",
            made_of=_MOTION,
        ),
        required(
            "stopped_seconds",
            pa.float64(),
            "Time standing between trips while points come",
            unit="seconds",
            made_of=_MOTION,
        ),
        column(
            "fuel_used",
            pa.float64(),
            "Falls from one fuel reading to the next; NULL without a reading",
            unit="litres",
            made_of="fuel_level time",
        ),
        column("latest", TIMESTAMP, "Event time of its last point; NULL without a point (UTC)", made_of="time"),
        required("n_points", pa.int64(), "Points of the day", made_of="time"),
        required("is_open", pa.bool_(), "Whether more may come to it", made_of="time"),
    ]
)


class FleetDaysParameters(EventTimeParameters):
    """Parameters of `fleet_days`."""

    moving_speed: float = Field(3.0, ge=0, description="Speed in km/h above which a vehicle moves")
    stop_after: Duration = Field(timedelta(minutes=5), description="Event time of standing still that ends a trip")
    silence: Duration = Field(
        timedelta(minutes=30), description="Event time between two points beyond which nothing is known of the way"
    )
    timezone: TimeZone = Field("UTC", description="Whose days they are: an IANA name, such as Europe/Berlin")


def build(parameters: FleetDaysParameters) -> KeyedJob:
    """Make the job of its parameters."""
    return KeyedJob(
        name="fleet_days",
        stream=TELEMETRY,
        key=("vehicle_id",),
        event_time="time",
        events=POINT,
        state=FLEET_STATE,
        output=FLEET_DAY,
        step=partial(keep_days, parameters=parameters),
        step_decides_late=True,
        output_mode="upsert",
        output_key=("vehicle_id", "day"),
        # Those of an open day are in state.
        output_events=pl.col("n_points").filter(~pl.col("is_open")).sum(),
        state_events=pl.col("n_points").sum(),
        **parameters.settings(),
    )


FLEET_DAYS = JobTemplate(
    "fleet_days",
    "One row a vehicle and day: kilometres, trips, moving, idle and stopped time, fuel used; open days are marked.",
    FleetDaysParameters,
    build,
)


def keep_days(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: FleetDaysParameters) -> Step:
    """The step: see the module's text. Every point waits, is in the sums of its day, open or told, or is late."""
    is_late = events["time"] <= clock.late_watermark
    late = events.filter(is_late)
    state = pl.concat([state, _waiting(events.filter(~is_late))])
    is_due = (state["deadline"] <= clock.watermark).fill_null(value=False)
    if not is_due.any():
        return Step(state, empty(FLEET_DAY), late)
    waits = (state["role"] == "waiting") & ~is_due
    limits = Limits(
        parameters.moving_speed, parameters.stop_after, parameters.silence, parameters.timezone, clock.watermark
    )
    days, kept = add_to_days(state.filter(~waits), limits)
    return Step(state=pl.concat([kept, state.filter(waits)]), output=_rows(days), late=late)


def _waiting(points: pl.DataFrame) -> pl.DataFrame:
    """Points as rows of state that wait for the watermark."""
    known = points.select(
        "vehicle_id",
        "time",
        "latitude",
        "longitude",
        "speed",
        role=pl.lit("waiting"),
        # What is no number of litres counts as no reading.
        fuel=(pl.col("fuel_level") * 1e6).round().cast(pl.Int64, strict=False),
        n_points=pl.lit(1, pl.Int64),
        deadline="time",
    )
    return pl.concat([empty(FLEET_STATE), known], how="diagonal")


def _rows(days: pl.DataFrame) -> pl.DataFrame:
    """Sums of days as rows of the table."""
    return days.select(
        "vehicle_id",
        "day",
        "day_start",
        # By numpy: Polars multiplies by 1e-9 in place of dividing.
        pl.Series("kilometres", days["distance"].to_numpy() / 1e9),
        "trips",
        pl.Series("moving_seconds", days["moving"].to_numpy() / 1e6),
        pl.Series("idle_seconds", days["idle"].to_numpy() / 1e6),
        pl.Series("stopped_seconds", days["stopped"].to_numpy() / 1e6),
        pl.Series("fuel_used", days["fuel_used"].to_numpy() / 1e6).set(days["n_readings"] == 0, None),
        "latest",
        "n_points",
        "is_open",
    )
