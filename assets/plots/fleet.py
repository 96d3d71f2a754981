"""Plot the fleet: a map of the last trips."""

import math
from typing import Any

import dagster as dg
import polars as pl

from keyfold import Lakehouse, scan_table
from keyfold.dagster.plots import ALARM, MAIN, QUIET, draw, legend, picture

_TRIPS = 100
_POINTS = 50_000


def plot_trips(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot a map of the last 100 trips."""
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
    figure, (panel,) = draw(width=6, height=5)
    for trip in trips.iter_rows(named=True):
        is_its = (pl.col("vehicle_id") == trip["vehicle_id"]) & pl.col("time").is_between(
            trip["start_time"], trip["end_time"]
        )
        track = seen.filter(is_its)
        panel.plot(track["longitude"], track["latitude"], color=QUIET, alpha=0.7, linewidth=0.8)
    for part, colour in (("start", MAIN), ("end", ALARM)):
        panel.scatter(trips[f"{part}_longitude"], trips[f"{part}_latitude"], s=9, color=colour, label=part, zorder=3)
    panel.set_title(f"the last {trips.height} trips")
    panel.set_xlabel("degrees east")
    panel.set_ylabel("degrees north")
    # A degree of longitude is shorter than a degree of latitude.
    latitude: Any = trips["start_latitude"].mean()
    panel.set_aspect(1 / max(math.cos(math.radians(latitude)), 0.1))
    legend(panel)
    return {"map": picture(figure, "Map of the last trips of the fleet")}
