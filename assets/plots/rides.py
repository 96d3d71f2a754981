"""Rides to look at: how long they take, and where the last ones went."""

from typing import Any

import dagster as dg
import polars as pl

from keyfold import Lakehouse, scan_table
from keyfold.dagster.plots import ALARM, MAIN, QUIET, draw, legend, picture

_RIDES = 5_000
_TRACKS = 80
_POINTS = 20_000


def plot_rides(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Durations of the last 5,000 rides by why they closed, and a map of the last 80."""
    summaries = scan_table(lakehouse.table("ride_summaries"))
    last = summaries.select("ride_id", "start_time", "end_time", "ride_duration_in_secs", "reason")
    rides = last.top_k(_RIDES, by="end_time").collect(engine="streaming")
    if not rides.height:
        return {}
    return {"durations": _durations(rides), "map": _map(lakehouse, rides.head(_TRACKS))}


def _durations(rides: pl.DataFrame) -> dg.MetadataValue:
    figure, (panel,) = draw()
    colours = {"DROPOFF_SEEN": MAIN, "GARBAGE_COLLECTION": ALARM}
    parts = {reason: rides.filter(pl.col("reason") == reason)["ride_duration_in_secs"] / 60 for reason in colours}
    panel.hist(
        [minutes.to_numpy() for minutes in parts.values()],
        bins=40,
        stacked=True,
        color=list(colours.values()),
        label=list(parts),
    )
    panel.set_title(f"duration of the last {rides.height:,} rides")
    panel.set_xlabel("minutes")
    legend(panel)
    return picture(figure, "Histogram of ride durations")


def _map(lakehouse: Lakehouse, rides: pl.DataFrame) -> dg.MetadataValue:
    points = scan_table(lakehouse.events("ride_points")).select("ride_id", "timestamp", "longitude", "latitude")
    start: Any = rides["start_time"].min()
    end: Any = rides["end_time"].max()
    between = pl.col("timestamp").is_between(start, end)
    wanted = pl.col("ride_id").is_in(rides["ride_id"].to_list())
    tracks = (
        points.filter(between & wanted)
        .top_k(_POINTS, by=["timestamp", "ride_id"])
        .collect(engine="streaming")
        .sort("ride_id", "timestamp")
    )
    figure, (panel,) = draw(width=6, height=5)
    for (_,), track in tracks.group_by("ride_id", maintain_order=True):
        panel.plot(track["longitude"], track["latitude"], color=QUIET, alpha=0.7, linewidth=0.8)
    for part, colour, name in (("first", MAIN, "start"), ("last", ALARM, "end")):
        ends = tracks.group_by("ride_id").agg(getattr(pl.col("longitude", "latitude"), part)())
        panel.scatter(ends["longitude"], ends["latitude"], s=9, color=colour, label=name, zorder=3)
    panel.set_title(f"the last {tracks['ride_id'].n_unique()} rides")
    panel.set_xlabel("degrees east")
    panel.set_ylabel("degrees north")
    panel.set_aspect(1.3)
    legend(panel)
    return picture(figure, "Map of the last rides")
