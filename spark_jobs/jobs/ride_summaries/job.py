"""Summarise rides: one row per ride when it has ended with a dropoff or has timed out.

For an open ride, state has one row with the sums of the points that the watermark has passed (start, distance, last position),
and each point ahead of the watermark. For a closed ride it has a marker row, by which late points are recognised. Distances are
summed in whole micrometres, so that the order of summing does not matter. Points that arrive while a ride continues are stored
unchanged beside its first row (`Waiting`), until the ride's deadline or an event that may end it.

The parameter `close` decides when a ride closes:

- `fast`: at its first dropoff, as soon as that point arrives; else when the watermark has passed its last point by `timeout`.
  Points that arrive in later runs, out of order after the close, are late.
- `complete`: by event time alone, at the first dropoff or the first silence longer than `timeout`, once the watermark has
  passed that. The summary depends neither on the order of arrival nor on batch boundaries.

A closed ride stays closed for `closed_for` of event time; points that arrive until then go to `late.ride_summaries`. So does a
point at or behind the late watermark, whatever the state of its ride.

With `timeout_in=processing_time`, a ride without a dropoff closes when no run has brought a point of it for `timeout`, whatever
the points' event times; its waiting points are counted first. Such a close has no event time, so no marker is kept: a later
point starts the ride again (`keyed.timeouts`).
"""

from datetime import timedelta
from functools import partial
from typing import Literal

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import Clock, JobTemplate, KeyedJob, OutputTable, Step, Waiting, column, required
from keyfold.keyed.job import DEADLINE, Duration, Timeout
from keyfold.keyed.rows.codec import empty
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.ride_summaries.stretches import STRETCH, Cut, Rules, cut
from spark_jobs.jobs.silence import SilentParameters
from spark_jobs.streams import RIDE_POINTS

_POINT = ("ride_id", "point_idx", "latitude", "longitude", "timestamp", "meter_reading", "ride_status")

RIDE_POINT = pa.schema([RIDE_POINTS.schema.field(name) for name in _POINT])

OPEN_RIDE = pa.schema([*STRETCH, pa.field("closed_at", TIMESTAMP), pa.field("deadline", TIMESTAMP)])
"""A point of an open ride, several points (with `start_time`), or the marker of a closed ride (with `closed_at`)."""

RIDE_SUMMARY = pa.schema(
    [
        required("ride_id", pa.string(), "The ride", made_of="ride_id"),
        required("start_time", TIMESTAMP, "Event time of its first point (UTC)", made_of="timestamp"),
        required("end_time", TIMESTAMP, "Event time of its last point (UTC)", made_of="timestamp"),
        required("start_status", pa.string(), "Status of its first point", made_of="ride_status timestamp"),
        required("end_status", pa.string(), "Status of its last point", made_of="ride_status timestamp"),
        required(
            "ride_duration_in_secs", pa.float64(), "From first to last point", unit="seconds", made_of="timestamp"
        ),
        required(
            "reason",
            pa.string(),
            "Why it closed: DROPOFF_SEEN, or GARBAGE_COLLECTION after a silence",
            made_of="ride_status",
        ),
        required("n_points", pa.int64(), "Number of its points", made_of="point_idx"),
        required(
            "distance_in_metres",
            pa.float64(),
            "Sum of the great-circle legs between its points",
            unit="metres",
            made_of="latitude longitude timestamp",
        ),
        column("fare", pa.float64(), "Meter reading of its last point", made_of="meter_reading timestamp"),
        *(
            column(
                f"start_{name}",
                pa.float64(),
                f"{name.title()} of its first point; NULL if the ride was open when the column was added",
                unit=f"degrees {towards}",
                made_of=(name, "timestamp"),
            )
            for name, towards in (("latitude", "north"), ("longitude", "east"))
        ),
    ]
)


class RideSummaryParameters(SilentParameters):
    """Parameters of `ride_summaries`."""

    close: Literal["fast", "complete"] = Field(
        "fast",
        description="fast: a ride closes as soon as its dropoff is seen. complete: it waits until the watermark has "
        "passed the dropoff, so that points that arrive out of order are counted.",
    )
    timeout: Duration = Field(
        timedelta(minutes=30), description="Silence after a ride's last point that closes the ride"
    )
    long_ride_threshold: Duration = Field(timedelta(hours=1), description="Rides longer than this are in long_rides")
    closed_for: Duration = Field(
        timedelta(days=1),
        description="Event time for which a closed ride is remembered, so that its points count as late",
    )

    @property
    def silence(self) -> Timeout:
        """The timeout that closes a ride without a dropoff."""
        return Timeout(self.timeout, self.timeout_in)


_KEY = ("ride_id",)

_NOT_FIRST = pl.all_horizontal(pl.col("start_time", "closed_at", DEADLINE).is_null())
"""Rows of an open ride's points, except its first row."""

_MOVABLE_PARAMETERS = frozenset({"close", "timeout", "timeout_in", "long_ride_threshold", "closed_for"})
"""Parameters that a move can change: an open ride keeps its points and closes by the new rule, at the latest when the old rule
would have closed it; a closed ride stays closed.
"""


def build(parameters: RideSummaryParameters) -> KeyedJob:
    """One row per ride: start and end, why it closed, distance and fare."""
    return KeyedJob(
        name="ride_summaries",
        stream=RIDE_POINTS,
        key=_KEY,
        event_time="timestamp",
        events=RIDE_POINT,
        state=parameters.silence.add_column(OPEN_RIDE),
        output=RIDE_SUMMARY,
        step=partial(summarise, parameters=parameters),
        waiting=Waiting(_NOT_FIRST, _only_wait, _points) if parameters.silence.in_event_time else None,
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                "long_rides", RIDE_SUMMARY, description="Summaries of the rides longer than `long_ride_threshold`."
            ),
        ),
        output_events=pl.col("n_points").sum(),
        state_events=pl.col("n_points").sum(),
        # A ride has one row of passed points, or one marker, beside any number of waiting points.
        one_per_key=pl.col("start_time").is_not_null() | pl.col("closed_at").is_not_null(),
        **parameters.settings(),
        movable_parameters=_MOVABLE_PARAMETERS,
    )


RIDE_SUMMARIES = JobTemplate("ride_summaries", RideSummaryParameters, build)


def summarise(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: RideSummaryParameters) -> Step:
    """Run the step: every point is in one summary, in state, or late."""
    silence, rules = parameters.silence, _rules(clock, parameters)
    is_marker = state["closed_at"].is_not_null()
    over, going_on = silence.part(state.filter(~is_marker), _KEY, clock)
    markers = state.filter(is_marker).select("ride_id", "closed_at")
    parts: list[Cut] = []
    if over.height:
        # Before the new points: a waiting dropoff may close the ride, after which they are late.
        parts.append(cut(over.select(STRETCH.names), rules._replace(is_over=True)))
        markers = _markers(markers, parts[0].closed)
    is_late = events["timestamp"] <= clock.late_watermark
    if markers.height:
        known = events.select("ride_id").join(markers, on="ride_id", how="left", maintain_order="left")["closed_at"]
        is_late |= (events["timestamp"] <= known + parameters.closed_for).fill_null(value=False)
    on_time = events.filter(~is_late)
    parts.append(cut(pl.concat([going_on.select(STRETCH.names), _points(on_time)]), rules))
    output = _summaries(pl.concat([part.closed for part in parts]))
    needed = _markers(markers, parts[-1].closed).with_columns(deadline=pl.col("closed_at") + parameters.closed_for)
    still_open = silence.renew(parts[-1].still_open, going_on, on_time, _KEY, clock)
    is_long = pl.col("ride_duration_in_secs") > parameters.long_ride_threshold.total_seconds()
    kept = pl.concat(
        [empty(silence.add_column(OPEN_RIDE)), still_open, needed.filter(pl.col("deadline") > clock.watermark)],
        how="diagonal",
    )
    late = pl.concat([events.filter(is_late), *(part.late.select(RIDE_POINT.names) for part in parts)])
    side = {"long_rides": output.filter(is_long)}
    return Step(kept, output, late, side)


def _only_wait(ride: pl.DataFrame, points: pl.DataFrame, clock: Clock) -> pl.Series:
    """Return the points that change nothing before their ride's deadline: those after its sums, without a dropoff."""
    goes_on = ride["closed_at"].is_null() & (ride[DEADLINE] > clock.watermark)
    return goes_on & (points["timestamp"] >= ride["timestamp"]) & points["ride_status"].ne_missing("dropoff")


def _rules(clock: Clock, parameters: RideSummaryParameters) -> Rules:
    is_fast = parameters.close == "fast"
    if not parameters.silence.in_event_time:
        return Rules(None, None, parameters.closed_for, is_fast, clock.watermark)
    # The watermark is behind the newest point by the delay. If the points had arrived one by one, a ride of `fast` would
    # have closed only after timeout plus delay.
    silence = parameters.timeout + parameters.watermark_delay if is_fast else parameters.timeout
    return Rules(parameters.timeout, silence, parameters.closed_for, is_fast, clock.watermark)


def _markers(markers: pl.DataFrame, closed: pl.DataFrame) -> pl.DataFrame:
    """Return the markers of closed rides, with the last close that has an event time."""
    new = closed.select("ride_id", "closed_at").drop_nulls("closed_at").unique("ride_id", keep="last")
    return pl.concat([markers.join(new, on="ride_id", how="anti"), new])


def _points(events: pl.DataFrame) -> pl.DataFrame:
    """Convert points to stretches of one point."""
    return pl.concat([empty(STRETCH), events.with_columns(n_points=pl.lit(1, pl.Int64))], how="diagonal")


def _summaries(closed: pl.DataFrame) -> pl.DataFrame:
    """Build rows of `RIDE_SUMMARY` from closed rides."""
    # With numpy: Polars multiplies by 1e-6 instead of dividing, which sometimes differs by one bit.
    seconds = (closed["end_time"] - closed["start_time"]).dt.total_microseconds().to_numpy() / 1e6
    dropped_off = pl.col("end_status") == "dropoff"
    return closed.select(
        "ride_id",
        "start_time",
        "end_time",
        "start_status",
        "end_status",
        pl.Series("ride_duration_in_secs", seconds),
        pl.when(dropped_off).then(pl.lit("DROPOFF_SEEN")).otherwise(pl.lit("GARBAGE_COLLECTION")).alias("reason"),
        "n_points",
        pl.Series("distance_in_metres", closed["distance"].to_numpy() / 1e6),
        "fare",
        "start_latitude",
        "start_longitude",
    )
