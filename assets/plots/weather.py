"""Moving averages against the readings that they are of."""

from datetime import timedelta
from typing import Any

import dagster as dg
import polars as pl

from keyfold import Lakehouse, scan_table
from keyfold.dagster.plots import MAIN, QUIET, draw, legend, picture

_STATIONS = 2
_SPAN = timedelta(days=5)


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
