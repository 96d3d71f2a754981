"""Ride summaries: one row a ride, when it has dropped its passengers off or fallen silent.

State holds, an open ride, one row with what is known of the points that the watermark has passed (when and where it began, how far
it went, where it was last), each point ahead of the watermark, and one marker row for a ride that has closed, so that its
stragglers are known as late. Distance is summed in whole micrometres, the same in whatever parts. Points that come while a ride
goes on wait as they are (`Waiting`), apart from its first row, until the ride's deadline, or an event that may end it.

How a ride closes:

- `fast`: at its first dropoff, as soon as that point is seen; else when the watermark has passed its last point by
  `timeout`. What arrives in a later run, out of order after the close, is late.
- `complete`: as the points lie in event time, whatever order they came in: at the first dropoff, or at the first
  silence longer than `timeout`, once the watermark has passed that. Any order of arrival and any split into runs gives
  the same summary.

A closed ride stays closed for `closed_for` of event time; its points until then go to `late.ride_summaries`. So does a
point at or behind the late watermark, whatever state its ride has.

With `timeout_in=processing_time` a ride that was not dropped off closes when no run has brought a point of it for `timeout`,
however far apart its points lie in event time; those that wait for the watermark are counted first. No event time says
when that was, so nothing is remembered of it: a point that comes then begins the ride anew (`keyed.timeouts`).
"""

from datetime import timedelta
from functools import partial
from typing import Literal

import polars as pl
import pyarrow as pa
from pydantic import Field

from keyfold import Clock, JobTemplate, KeyedJob, OutputTable, Step, Waiting, column, required
from keyfold.keyed.job import DEADLINE, Duration, Timeout
from keyfold.keyed.rows.codec import empty, polars_schema
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.expiry import SilentParameters
from spark_jobs.jobs.ride_summaries.stretches import STRETCH, Cut, Rules, cut
from spark_jobs.streams import RIDE_POINTS

RIDE_POINT = pa.schema(
    [
        RIDE_POINTS.schema.field(column)
        for column in (
            "ride_id",
            "point_idx",
            "latitude",
            "longitude",
            "timestamp",
            "meter_reading",
            "ride_status",
        )
    ]
)

OPEN_RIDE = pa.schema([*STRETCH, pa.field("closed_at", TIMESTAMP), pa.field("deadline", TIMESTAMP)])
"""Points of an open ride, one or (with `start_time`) more, or (with `closed_at`) the marker of a closed one."""

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
        required("n_points", pa.int64(), "Points that the summary stands for", made_of="point_idx"),
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
                f"{name.title()} of its first point; NULL of a ride that was open when the job got the column",
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
        "passed the dropoff, so that points which came out of order are counted.",
    )
    timeout: Duration = Field(timedelta(minutes=30), description="Silence after a ride's last point when it closes")
    long_ride_threshold: Duration = Field(timedelta(hours=1), description="Rides longer than this are in long_rides")
    closed_for: Duration = Field(
        timedelta(days=1), description="Event time for which a closed ride is remembered, to know its late points"
    )

    @property
    def silence(self) -> Timeout:
        """What closes a ride that was not dropped off."""
        return Timeout(self.timeout, self.timeout_in)


_KEY = ("ride_id",)

_BEHIND_THE_FIRST = pl.all_horizontal(pl.col("start_time", "closed_at", DEADLINE).is_null())
"""Points of an open ride but for its first row."""

_FROM_HERE_ON = frozenset({"close", "timeout", "timeout_in", "long_ride_threshold", "closed_for"})
"""Parameters that count from here on: a ride that is open keeps its points and closes by the new rule whenever it is
looked at, at the latest when it would have closed before; one that has closed stays closed.
"""


def build(parameters: RideSummaryParameters) -> KeyedJob:
    """Make the job of its parameters."""
    return KeyedJob(
        name="ride_summaries",
        stream=RIDE_POINTS,
        key=_KEY,
        event_time="timestamp",
        events=RIDE_POINT,
        state=parameters.silence.add_column(OPEN_RIDE),
        output=RIDE_SUMMARY,
        step=partial(summarise, parameters=parameters),
        waiting=Waiting(_BEHIND_THE_FIRST, _only_wait, _points) if parameters.silence.in_event_time else None,
        step_decides_late=True,
        side_outputs=(
            OutputTable(
                "long_rides", RIDE_SUMMARY, description="Summaries of the rides longer than `long_ride_threshold`."
            ),
        ),
        output_events=pl.col("n_points").sum(),
        state_events=pl.col("n_points").sum(),
        # What is known of the points that have passed, or that the ride is closed; points that wait may be any number.
        one_per_key=pl.col("start_time").is_not_null() | pl.col("closed_at").is_not_null(),
        **parameters.settings(),
        movable_parameters=_FROM_HERE_ON,
    )


RIDE_SUMMARIES = JobTemplate(
    "ride_summaries",
    "One row a ride: when and where in time it ran, why it closed, how far and for how much.",
    RideSummaryParameters,
    build,
)


def summarise(state: pl.DataFrame, events: pl.DataFrame, clock: Clock, parameters: RideSummaryParameters) -> Step:
    """The step: see the module's text. Every point ends in one summary, in state, or among the late."""
    silence, rules = parameters.silence, _rules(clock, parameters)
    is_marker = state["closed_at"].is_not_null()
    over, going_on = silence.part(state.filter(~is_marker), _KEY, clock)
    markers = state.filter(is_marker).select("ride_id", "closed_at")
    parts: list[Cut] = []
    if over.height:
        # Before what came: a dropoff may have waited, after which points are late.
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
    """Points change nothing before their ride's deadline: it closes by none that lies between others, or behind them."""
    goes_on = ride["closed_at"].is_null() & (ride[DEADLINE] > clock.watermark)
    return goes_on & (points["timestamp"] >= ride["timestamp"]) & points["ride_status"].ne_missing("dropoff")


def _rules(clock: Clock, parameters: RideSummaryParameters) -> Rules:
    is_fast = parameters.close == "fast"
    if not parameters.silence.in_event_time:
        return Rules(None, None, parameters.closed_for, is_fast, clock.watermark)
    # The watermark follows a run's points by the delay: had they come one by one, a ride of `fast` would have closed only
    # when it had been silent for so long.
    silence = parameters.timeout + parameters.watermark_delay if is_fast else parameters.timeout
    return Rules(parameters.timeout, silence, parameters.closed_for, is_fast, clock.watermark)


def _markers(markers: pl.DataFrame, closed: pl.DataFrame) -> pl.DataFrame:
    """The rides that are known as closed, once these have: each by its last close that has a time."""
    new = closed.select("ride_id", "closed_at").drop_nulls("closed_at").unique("ride_id", keep="last")
    return pl.concat([markers.join(new, on="ride_id", how="anti"), new])


def _points(events: pl.DataFrame) -> pl.DataFrame:
    """Points as stretches of one."""
    schema = polars_schema(STRETCH)
    rest = {name: pl.lit(None, kind) for name, kind in schema.items() if name not in events.columns}
    return events.with_columns(**{**rest, "n_points": pl.lit(1, pl.Int64)}).select(schema.keys())


def _summaries(closed: pl.DataFrame) -> pl.DataFrame:
    """Rows of `RIDE_SUMMARY`, of rides that close."""
    # By numpy: Polars multiplies by 1e-6 in place of dividing, which is off by one bit now and then.
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
