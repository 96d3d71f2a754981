"""Evaluate where conditions begin and end along a vehicle's points: by two thresholds of a value, or by areas with a margin."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from keyfold.operators.ordering import Ordered
from keyfold.times import to_micros
from spark_jobs.jobs.fleet_warnings.geofences import Geofences

IN_GEOFENCE = "IN_GEOFENCE"
BEGAN, ENDED = "BEGAN", "ENDED"

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

CHANGE = {"row": pl.Int64, "warning": pl.String, "geofence": pl.String, "change": pl.String, "began_at": pl.Int64}
"""A condition that began or ended at a row; `began_at` in microseconds since 1970."""

HELD = {"vehicle": pl.Int64, "warning": pl.String, "geofence": pl.String, "began_at": pl.Int64}
"""An open condition of a vehicle, by the number of its key."""


class Judged(NamedTuple):
    """The changes of conditions at some points (`CHANGE`), and the conditions that are open after them (`HELD`)."""

    changes: pl.DataFrame
    held: pl.DataFrame


def judge_value(ordered: Ordered, held: pl.DataFrame, warning: str, begins: pl.Expr, ends: pl.Expr) -> Judged:
    """Evaluate a value: the condition begins where `begins` is true, and holds until `ends` is true.

    Args:
        ordered: points, ordered by vehicle and time.
        held: the conditions that are open before them.
        warning: the name of the condition.
        begins: an expression on points; NULL if the value is missing.
        ends: an expression on points; never true where `begins` is true.
    """
    rows, number, first = ordered.events, ordered.key_number, ordered.starts
    carried = np.full(first.size, _NEVER)
    mine = held.filter(pl.col("warning") == warning)
    carried[mine["vehicle"].to_numpy()] = mine["began_at"].to_numpy()
    decisive = rows.select(begins=begins.fill_null(value=False), ends=ends.fill_null(value=False))
    is_begin, index = decisive["begins"].to_numpy(), np.arange(rows.height)
    # The last decisive point before each point; before the first one, the open conditions decide.
    last = np.maximum.accumulate(np.where(is_begin | decisive["ends"].to_numpy(), index, -1))
    is_carried = last < first[number]
    is_on = np.where(is_carried, carried[number] != _NEVER, is_begin[last])
    before = np.append(False, is_on[:-1])
    before[first] = carried != _NEVER
    began, ended = np.flatnonzero(is_on & ~before), np.flatnonzero(~is_on & before)
    time = to_micros(rows["time"])
    since = np.maximum.accumulate(np.where(is_on & ~before, index, -1))
    began_at = np.where(since < first[number], carried[number], time[since])
    changes = pl.concat(
        [_changes(began, warning, BEGAN, time[began]), _changes(ended, warning, ENDED, began_at[ended])]
    )
    on = np.flatnonzero(is_on[ordered.lasts])
    return Judged(changes, _held(on, warning, began_at[ordered.lasts][on]))


def judge_places(ordered: Ordered, held: pl.DataFrame, geofences: Geofences) -> Judged:
    """Evaluate positions: a geofence is entered at a point inside it, and left at the first point outside of its margin."""
    rows, first, last = ordered.events, ordered.starts, ordered.lasts
    time, names = to_micros(rows["time"]), pl.Series(geofences.names, dtype=pl.String)
    near = geofences.near(rows["longitude"].to_numpy(), rows["latitude"].to_numpy())
    vehicle = ordered.key_number[near.point]
    # A run: consecutive points of a vehicle that are all in or near one geofence.
    begins = np.ones(near.point.size, dtype=bool)
    begins[1:] = (np.diff(near.fence) != 0) | (np.diff(near.point) != 1) | (np.diff(vehicle) != 0)
    run = np.flatnonzero(begins)
    end = near.point[np.append(run[1:], near.point.size)[: run.size] - 1]
    of, fence, start = vehicle[run], near.fence[run], near.point[run]
    # The first point of a run that is inside; the number of rows if the run is only near.
    inside = np.where(near.is_inside, near.point, rows.height)
    entered = np.minimum.reduceat(inside, run) if run.size else run
    mine = held.filter(pl.col("warning") == IN_GEOFENCE)
    carried = pl.DataFrame({"vehicle": of, "geofence": names.gather(fence), "start": start}).join(
        mine.with_columns(start=pl.Series(first[mine["vehicle"].to_numpy()])),
        on=["vehicle", "geofence", "start"],
        how="left",
        maintain_order="left",
    )["began_at"]
    goes_on = carried.is_not_null().to_numpy()
    is_entered = ~goes_on & (entered < rows.height)
    is_on = goes_on | is_entered
    began_at = np.where(goes_on, carried.fill_null(0).to_numpy(), time[np.minimum(entered, rows.height - 1)])
    ends = is_on & (end < last[of])
    stays = is_on & ~ends
    # A geofence that was open before ends at the vehicle's first point if that is not near it.
    left = mine.join(
        pl.DataFrame({"vehicle": of[goes_on], "geofence": names.gather(fence[goes_on])}),
        on=["vehicle", "geofence"],
        how="anti",
    )
    changes = [
        _changes(entered[is_entered], IN_GEOFENCE, BEGAN, time[entered[is_entered]], names.gather(fence[is_entered])),
        _changes(end[ends] + 1, IN_GEOFENCE, ENDED, began_at[ends], names.gather(fence[ends])),
        _changes(first[left["vehicle"].to_numpy()], IN_GEOFENCE, ENDED, left["began_at"], left["geofence"]),
    ]
    return Judged(pl.concat(changes), _held(of[stays], IN_GEOFENCE, began_at[stays], names.gather(fence[stays])))


def _changes(rows: Any, warning: str, change: str, began_at: Any, geofence: pl.Series | None = None) -> pl.DataFrame:
    columns = {"row": rows, "warning": warning, "geofence": geofence, "change": change, "began_at": began_at}
    return pl.DataFrame(columns, schema=CHANGE)


def _held(vehicle: Any, warning: str, began_at: Any, geofence: pl.Series | None = None) -> pl.DataFrame:
    columns = {"vehicle": vehicle, "warning": warning, "geofence": geofence, "began_at": began_at}
    return pl.DataFrame(columns, schema=HELD)


_NEVER = np.iinfo(np.int64).min
