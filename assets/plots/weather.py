"""Moving averages against the readings that they are of, and rides in the weather of their start."""

from datetime import timedelta
from typing import Any

import dagster as dg
import polars as pl

from keyfold import Lakehouse
from keyfold.dagster.plots import ALARM, MAIN, QUIET, draw, legend, picture
from keyfold.lakehouse.reading import scan_table

_STATIONS = 2
_SPAN = timedelta(days=5)
_RIDES = 5_000


def plot_averages(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Temperature of the two stations heard last, over five days: readings and their moving average."""
    averages = scan_table(lakehouse.table("moving_averages"))
    if "temp_avg" not in averages.collect_schema().names():
        return {}
    order = ["end_time", "station_id"]
    heard = scan_table(lakehouse.table("latest_moving_averages")).top_k(_STATIONS, by=order)
    latest = heard.collect(engine="streaming").sort(order, descending=True)
    stations = latest["station_id"].to_list()
    if not stations:
        return {}
    newest: Any = latest["end_time"].max()
    since = newest - _SPAN
    readings = scan_table(lakehouse.events("weather")).filter(pl.col("time") >= since)
    figure, panels = draw(len(stations))
    for station, panel in zip(stations, panels, strict=True):
        is_its = pl.col("station_id") == station
        given = readings.filter(is_its).select("time", "temp").collect(engine="streaming").sort("time")
        means = averages.filter(is_its, pl.col("end_time") >= since).select("end_time", "temp_avg")
        mean = means.collect(engine="streaming").sort("end_time")
        panel.plot(given["time"].to_numpy(), given["temp"].to_numpy(), color=QUIET, label="reading")
        panel.plot(mean["end_time"].to_numpy(), mean["temp_avg"].to_numpy(), color=MAIN, label="moving average")
        panel.set_title(f"temperature at {station}, °F")
        panel.tick_params(axis="x", rotation=30)
        legend(panel)
    return {"readings_and_averages": picture(figure, "Temperature readings and their moving averages")}


def plot_ride_weather(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Temperature at the start of the last 5,000 rides that have one, and how fast they were, dry and in rain."""
    rides = scan_table(lakehouse.table("ride_weather")).filter(pl.col("temp").is_not_null())
    columns = ("start_time", "temp", "precip", "distance_in_metres", "ride_duration_in_secs")
    last = rides.select(columns).top_k(_RIDES, by="start_time").collect(engine="streaming")
    if not last.height:
        return {}
    speed = pl.col("distance_in_metres") / pl.col("ride_duration_in_secs").clip(1) * 3.6
    last = last.with_columns(speed=speed, is_wet=(pl.col("precip") > 0).fill_null(value=False))
    figure, (panel,) = draw()
    for is_wet, colour, name in ((False, MAIN, "dry"), (True, ALARM, "rain")):
        of_it = last.filter(pl.col("is_wet") == is_wet)
        panel.scatter(of_it["temp"].to_numpy(), of_it["speed"].to_numpy(), s=9, color=colour, label=name)
    panel.set_title(f"the last {last.height:,} rides")
    panel.set_xlabel("temperature at the start, °F")
    panel.set_ylabel("km/h")
    legend(panel)
    return {"rides_in_weather": picture(figure, "Speed of rides by the temperature at their start")}
