"""Plot the fleet: a map of the last trips, hot spots, days and warnings."""

from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
import polars as pl

from keyfold import Lakehouse
from keyfold.dagster.plots import ALARM, MAIN, QUIET, SECOND, draw, legend, picture
from keyfold.lakehouse.reading import scan_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TRIPS = 100
_POINTS = 50_000
_DAYS = 31
_WARNINGS = 2_000
_CELLS = 40
"""Number of cells along the longer side of the grid."""


def plot_trips(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot a map of the last 100 trips, and the hot spots: points of the same period counted in a grid."""
    trips = (
        scan_table(lakehouse.table("vehicle_trips"))
        .top_k(_TRIPS, by=["end_time", "vehicle_id"])
        .collect(engine="streaming")
    )
    if not trips.height:
        return {}
    since: Any = trips["start_time"].min()
    until: Any = trips["end_time"].max()
    points = scan_table(lakehouse.events("telemetry")).select("vehicle_id", "time", "longitude", "latitude")
    # If there are too many points, take the newest, not those that come first in the table's files.
    newest = points.filter(pl.col("time").is_between(since, until)).top_k(_POINTS, by=["time", "vehicle_id"])
    seen = newest.collect(engine="streaming").sort("vehicle_id", "time")
    figure, (map_of_trips, grid) = draw(2, height=4)
    # A degree of longitude is shorter than a degree of latitude.
    latitude: Any = trips["start_latitude"].mean()
    aspect = 1 / max(np.cos(np.radians(latitude)), 0.1)
    _draw_trips(map_of_trips, trips, seen)
    if seen.height:
        _draw_hot_spots(grid, seen)
    for panel in (map_of_trips, grid):
        panel.set_xlabel("degrees east")
        panel.set_ylabel("degrees north")
        panel.set_aspect(aspect)
    return {"map_and_hot_spots": picture(figure, "Map of the last trips, and hot spots of the fleet")}


def plot_days(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot kilometres, fuel and hours of the whole fleet on each of the last 31 days."""
    days = scan_table(lakehouse.table("fleet_days"))
    sums = pl.col("kilometres", "moving_seconds", "idle_seconds", "fuel_used").sum()
    last = days.group_by("day").agg(sums).top_k(_DAYS, by="day").collect(engine="streaming").sort("day")
    if not last.height:
        return {}
    figure, (driven, fuel, hours) = draw(3)
    names = [f"{day:%m-%d}" for day in last["day"]]
    driven.bar(names, last["kilometres"], color=MAIN)
    driven.set_title("kilometres of all vehicles")
    fuel.bar(names, last["fuel_used"], color=ALARM)
    fuel.set_title("litres of all vehicles")
    below = np.zeros(last.height)
    for part, colour in (("moving", MAIN), ("idle", SECOND)):
        value = last[f"{part}_seconds"].to_numpy() / 3600
        hours.bar(names, value, bottom=below, color=colour, label=part)
        below += value
    hours.set_title("hours of all vehicles")
    legend(hours)
    for panel in (driven, fuel, hours):
        panel.tick_params(axis="x", rotation=60)
    return {"days": picture(figure, "Kilometres, fuel and hours of the fleet by day")}


def plot_warnings(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot where and when the last 2,000 warnings began."""
    began = scan_table(lakehouse.table("fleet_warnings")).filter(pl.col("change") == "BEGAN")
    last = began.top_k(_WARNINGS, by="time").collect(engine="streaming").sort("time")
    if not last.height:
        return {}
    figure, (place, when) = draw(2, height=3.6)
    for warning, colour in {"IN_GEOFENCE": QUIET, "LOW_FUEL": SECOND, "ENGINE_TOO_HOT": ALARM}.items():
        its = last.filter(pl.col("warning") == warning)
        place.scatter(its["longitude"], its["latitude"], s=9, color=colour, label=f"{warning} ({its.height:,})")
        when.step(its["time"].to_numpy(), np.arange(1, its.height + 1), color=colour, where="post")
    place.set_title("where warnings began")
    legend(place)
    when.set_title("number of warnings over time")
    when.tick_params(axis="x", rotation=30)
    return {"warnings_map": picture(figure, "Where and when the last warnings of the fleet began")}


def _draw_trips(panel: "Axes", trips: pl.DataFrame, points: pl.DataFrame) -> None:
    for trip in trips.iter_rows(named=True):
        is_its = (pl.col("vehicle_id") == trip["vehicle_id"]) & pl.col("time").is_between(
            trip["start_time"], trip["end_time"]
        )
        track = points.filter(is_its)
        panel.plot(track["longitude"], track["latitude"], color=QUIET, alpha=0.7, linewidth=0.8)
    for part, colour in (("start", MAIN), ("end", ALARM)):
        panel.scatter(trips[f"{part}_longitude"], trips[f"{part}_latitude"], s=9, color=colour, label=part, zorder=3)
    panel.set_title(f"the last {trips.height} trips")
    legend(panel)


def _draw_hot_spots(panel: "Axes", points: pl.DataFrame) -> None:
    east, north = points["longitude"].to_numpy(), points["latitude"].to_numpy()
    # A fleet in one place has no extent, but the grid needs one.
    side = max(np.ptp(east), np.ptp(north), 1e-4) / _CELLS
    cells = [max(1, int(np.ceil(np.ptp(axis) / side))) for axis in (east, north)]
    counted, *edges = np.histogram2d(east, north, bins=cells)
    shown = np.ma.masked_equal(counted.T, 0)
    panel.pcolormesh(*edges, shown, cmap="YlOrRd", norm="log")
    panel.set_title(f"hot spots: points a cell of {side * 111:.1f} km")
