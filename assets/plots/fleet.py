"""The fleet to look at: a map of the last trips, and where its vehicles are most."""

from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
import polars as pl

from assets.plots.figure import ALARM, MAIN, QUIET, draw, picture
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.lakehouse.reading import scan_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TRIPS = 100
_POINTS = 50_000
_CELLS = 40
"""Of the grid, along its longer side."""


def plot_trips(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """A map of the last 100 trips, and the points of their time counted in a grid: the hot spots."""
    trips = scan_table(lakehouse.table("vehicle_trips")).top_k(_TRIPS, by="end_time").collect()
    if not trips.height:
        return {}
    since: Any = trips["start_time"].min()
    until: Any = trips["end_time"].max()
    points = scan_table(lakehouse.events("telemetry")).select("vehicle_id", "time", "longitude", "latitude")
    seen = points.filter(pl.col("time").is_between(since, until)).head(_POINTS).collect().sort("vehicle_id", "time")
    figure, (map_of_trips, grid) = draw(2, height=4)
    # Degrees of longitude are shorter than those of latitude.
    latitude: Any = trips["start_latitude"].mean()
    aspect = 1 / max(np.cos(np.radians(latitude)), 0.1)
    _draw_trips(map_of_trips, trips, seen)
    if seen.height:
        _draw_hot_spots(grid, seen)
    for panel in (map_of_trips, grid):
        panel.set_xlabel("degrees east")
        panel.set_ylabel("degrees north")
        panel.set_aspect(aspect)
    return {"map_and_hot_spots": picture(figure, "Map of the last trips, and where the fleet's points are most")}


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
    panel.legend(frameon=False)


def _draw_hot_spots(panel: "Axes", points: pl.DataFrame) -> None:
    east, north = points["longitude"].to_numpy(), points["latitude"].to_numpy()
    # A fleet that stands in one place has no spread: a grid needs one.
    side = max(np.ptp(east), np.ptp(north), 1e-4) / _CELLS
    cells = [max(1, int(np.ceil(np.ptp(axis) / side))) for axis in (east, north)]
    counted, *edges = np.histogram2d(east, north, bins=cells)
    shown = np.ma.masked_equal(counted.T, 0)
    panel.pcolormesh(*edges, shown, cmap="YlOrRd", norm="log")
    panel.set_title(f"hot spots: points a cell of {side * 111:.1f} km")
