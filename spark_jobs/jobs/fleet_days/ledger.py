"""Add points that the watermark has passed to the sums of a vehicle's days."""

from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from keyfold.columns import plain_columns
from keyfold.keyed.rows.codec import empty
from keyfold.keyed.rows.exact_sums import in_int64, summed, sums_from
from keyfold.stream import TIMESTAMP
from keyfold.times import micros, to_times
from spark_jobs.jobs.fleet_days.days import Days, days_around
from spark_jobs.jobs.fleet_days.legs import Legs

DAY_SUMS = ("distance", "moving", "idle", "stopped", "trips", "fuel_used", "n_readings", "n_points")
"""In micrometres, microseconds, microlitres and counts: whole numbers, so that no sum depends on its order."""

FLEET_STATE = pa.schema(
    [
        *plain_columns(pa.string(), "vehicle_id", "role", nullable=False),
        pa.field("time", TIMESTAMP),
        *plain_columns(pa.float64(), "latitude", "longitude", "speed"),
        pa.field("fuel", pa.int64()),
        pa.field("may_pause", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("latest", TIMESTAMP),
        *plain_columns(pa.int64(), *DAY_SUMS),
        pa.field("deadline", TIMESTAMP),
    ]
)
"""State rows of three roles.

- `waiting`: a point that the watermark has not passed; `fuel` in microlitres, `n_points` 1.
- `passed`: a vehicle's last point, counted already, with the last fuel reading; and, while its stand may turn out to be a pause
  of a trip (`may_pause`), the earlier points of that stand.
- `day`: the sums of an open day.
"""

Numbers = npt.NDArray[np.int64]


class Limits(NamedTuple):
    """The parameters of the job, and the watermark."""

    moving_speed: float
    stop_after: timedelta
    silence: timedelta
    zone: str
    watermark: datetime


class Added(NamedTuple):
    """Changed and closed days (`DAY_SUMS`, `vehicle_id`, `day`, `day_start`, `latest`, `is_open`), and the new state."""

    days: pl.DataFrame
    kept: pl.DataFrame


def add_to_days(state: pl.DataFrame, limits: Limits) -> Added:
    """Add points that the watermark has passed to the sums of their days, and close the days that are complete."""
    is_day = state["role"] == "day"
    points, sums = state.filter(~is_day), state.filter(is_day).select("vehicle_id", "day", "latest", *DAY_SUMS)
    calendar = _calendar(points, sums, limits.zone)
    added, kept = sums.clear(), points.clear()
    if points.height:
        legs = Legs(points, limits.moving_speed, limits.stop_after, limits.silence, limits.watermark)
        added, kept = _by_day(legs, calendar).select(sums.columns), legs.kept()
    changed = added.select("vehicle_id", "day", has_changed=pl.lit(value=True)).unique()
    rows = pl.concat([sums, added])
    by = ["vehicle_id", "day"]
    days = summed(rows, by, DAY_SUMS, pl.col("latest").max()).join(changed, on=by, how="left")
    number = days["day"].cast(pl.Int32).to_numpy().astype(np.int64)
    closes = calendar.begin(number + 1) + micros(max(limits.stop_after, limits.silence))
    is_open = pl.Series(closes > micros(limits.watermark))
    days = days.with_columns(
        day_start=to_times(calendar.begin(number)), deadline=to_times(closes), is_open=is_open, role=pl.lit("day")
    )
    still_open = days.filter("is_open").select(name for name in FLEET_STATE.names if name in days.columns)
    return Added(
        days=days.filter(pl.col("has_changed") | ~pl.col("is_open")),
        kept=pl.concat([empty(FLEET_STATE), kept, still_open], how="diagonal"),
    )


def _calendar(points: pl.DataFrame, sums: pl.DataFrame, zone: str) -> Days:
    """Return the days of all times in the points and sums."""
    times = pl.concat([points["time"], sums["day"].cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias("time")])
    physical = times.to_physical()
    earliest, latest = physical.min(), physical.max()
    return days_around(int(earliest or 0), int(latest or 0), zone)  # type: ignore[arg-type]


def _by_day(legs: Legs, calendar: Days) -> pl.DataFrame:
    """Return what the legs and the new points add to each vehicle's days, without days to which nothing is added."""
    day = calendar.of(legs.time)
    crosses = np.append(day[1:] != day[:-1], False) & legs.is_known
    begins = legs.begins_vehicle.copy()
    begins[1:] |= day[1:] != day[:-1]
    first = np.flatnonzero(begins)

    vehicles = legs.vehicles.gather(first)
    values = {name: np.where(crosses, 0, of_legs) for name, of_legs in legs.of_legs.items()} | legs.of_points
    latest = np.maximum.reduceat(np.where(legs.is_new, legs.time, _NEVER), first)
    unsplit = pl.DataFrame(
        {
            "vehicle_id": vehicles,
            "day": day[first],
            **{name: in_int64(sums_from(first, of_rows), name, vehicles) for name, of_rows in values.items()},
            "latest": to_times(latest).set(pl.Series(latest == _NEVER), None),
        }
    )
    parts = _split(legs, np.flatnonzero(crosses), day, calendar)
    sums = pl.concat([unsplit, parts], how="diagonal").with_columns(pl.col("day").cast(pl.Int32).cast(pl.Date))
    return sums.with_columns(pl.col(DAY_SUMS).fill_null(0)).filter(pl.any_horizontal(pl.col(DAY_SUMS) != 0))


def _split(legs: Legs, rows: Numbers, day: Numbers, calendar: Days) -> pl.DataFrame:
    """Split legs over midnight into one part per day: by time, and metres in proportion to time."""
    parts = day[rows + 1] - day[rows] + 1
    of = np.repeat(np.arange(rows.size), parts)
    on = np.repeat(day[rows], parts) + np.arange(of.size) - np.repeat(np.cumsum(parts) - parts, parts)
    begin, end = legs.time[rows][of], legs.time[rows + 1][of]
    until = np.minimum(calendar.begin(on + 1), end)
    since = np.maximum(calendar.begin(on), begin)
    gone = (np.stack([since, until]) - begin) / (end - begin)
    split: dict[str, Numbers | pl.Series] = {}
    for name, values in legs.of_legs.items():
        total = values[rows][of]
        # Differences of rounded cumulative values, so that the parts add up to the total.
        before, after = (
            np.round(total * gone).astype(np.int64) if name == "distance" else (since - begin, until - begin)
        )
        split[name] = np.where(total != 0, after - before, 0)
    return pl.DataFrame({"vehicle_id": legs.vehicles.gather(rows[of]), "day": on, **split})


_NEVER = np.iinfo(np.int64).min
