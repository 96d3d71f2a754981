"""Sum kilometres, trips, idle time and fuel of each vehicle and day.

Movement, trips and pauses are defined as in `vehicle_trips` with the same parameters. So the days of a vehicle add up to its
trips' kilometres and its moving and idle seconds, and to the number of its trips, each counted on the day on which it starts.

- **Kilometres** are the great-circle legs of trips: legs that begin at a moving point, and legs of pauses.
- **Moving** is the time after moving points. **Idle** is the time of a trip's pauses, shorter than `stop_after`. **Stopped** is
  the time between trips while points keep arriving. The time between two points more than `silence` apart is none of these.
- **A leg over midnight is split there**: by time, and its metres in proportion to time. A fall of the fuel level counts on the
  day of the reading that shows it, also while standing; refuelling does not count.
- **Days are those of `timezone`** (default UTC); they have 23 or 25 hours when clocks are set.

Points wait in state until the watermark has passed them; then they are added to their day's sums, which are whole numbers. Of
passed points, state keeps only a vehicle's last one, and those of a stand that may still be a pause. The row of a day contains
the passed points. It is open (`is_open`) until the watermark is past the day's end by the longer of `silence` and `stop_after`:
then all legs, pauses and trips of the day are known, and the row is written for the last time.

A point at or behind the watermark is late, whatever the state of its vehicle. Everything else depends only on event time: any
order of arrival within `watermark_delay` and any batch boundaries give the same rows.
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
from spark_jobs.jobs.motion import FUEL_USED, IDLE_SECONDS, MOTION, MOVING_SECONDS, PLACE
from spark_jobs.streams import TELEMETRY

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
            "Great-circle legs of trips; a leg over midnight is split in proportion to time",
            unit="km",
            made_of=(*PLACE, "speed"),
        ),
        required("trips", pa.int64(), "Trips that start on the day", made_of=MOTION),
        MOVING_SECONDS,
        IDLE_SECONDS,
        required(
            "stopped_seconds", pa.float64(), "Time between trips while points arrive", unit="seconds", made_of=MOTION
        ),
        FUEL_USED,
        column("latest", TIMESTAMP, "Event time of its last point; NULL without a point (UTC)", made_of="time"),
        required("n_points", pa.int64(), "Points of the day", made_of="time"),
        required("is_open", pa.bool_(), "Whether more may come to it", made_of="time"),
    ]
)


class FleetDaysParameters(EventTimeParameters):
    """Parameters of `fleet_days`."""

    moving_speed: float = Field(3.0, ge=0, description="Speed in km/h above which a vehicle moves")
    stop_after: Duration = Field(timedelta(minutes=5), description="Event time without movement that ends a trip")
    silence: Duration = Field(
        timedelta(minutes=30),
        description="Longest event time between two points of a leg; a longer gap counts as unknown",
    )
    timezone: TimeZone = Field("UTC", description="Whose days they are: an IANA name, such as Europe/Berlin")


def build(parameters: FleetDaysParameters) -> KeyedJob:
    """One row a vehicle and day: kilometres, trips, moving, idle and stopped time, fuel used; open days are marked."""
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
        # The points of open days are counted in state.
        output_events=pl.col("n_points").filter(~pl.col("is_open")).sum(),
        state_events=pl.col("n_points").sum(),
        **parameters.settings(),
    )


FLEET_DAYS = JobTemplate("fleet_days", FleetDaysParameters, build)


def keep_days(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: FleetDaysParameters) -> Step:
    """Run the step: every point waits, is in the sums of its day, or is late."""
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
    """Convert points to rows of state that wait for the watermark."""
    known = points.select(
        "vehicle_id",
        "time",
        "latitude",
        "longitude",
        "speed",
        role=pl.lit("waiting"),
        # NaN and infinity count as no reading.
        fuel=(pl.col("fuel_level") * 1e6).round().cast(pl.Int64, strict=False),
        n_points=pl.lit(1, pl.Int64),
        deadline="time",
    )
    return pl.concat([empty(FLEET_STATE), known], how="diagonal")


def _rows(days: pl.DataFrame) -> pl.DataFrame:
    """Convert the sums of days to rows of the table."""
    return days.select(
        "vehicle_id",
        "day",
        "day_start",
        # With numpy: Polars multiplies by 1e-9 instead of dividing, which sometimes differs by one bit.
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
