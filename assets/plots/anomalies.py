"""Plot the metric with the most recent anomalies: values, expected band and emitted predictions."""

from typing import TYPE_CHECKING

import dagster as dg
import polars as pl

from keyfold import KeyfoldError, Lakehouse, live_parameters, scan_table
from keyfold.dagster.plots import ALARM, MAIN, QUIET, draw, legend, picture
from spark_jobs.jobs.anomaly_predictions.models import MODELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_EMITTED = 20_000
_VALUES = 3_000


def plot_anomalies(lakehouse: Lakehouse) -> dict[str, dg.MetadataValue]:
    """Plot the last 3,000 values of the key with the most anomalies among the last 20,000 emitted predictions.

    The band is predicted by a model that starts at the first value shown. At the left edge it differs from the live model's
    band, which has learned from more values.
    """
    table = scan_table(lakehouse.table("anomaly_predictions"))
    emitted = (
        table.select("key", "event_time", "value", "label").top_k(_EMITTED, by="event_time").collect(engine="streaming")
    )
    if not emitted.height:
        return {}
    counts = emitted.group_by("key").agg((pl.col("label") == "anomalous").sum().alias("anomalies"))
    key = counts.sort("anomalies", "key", descending=[True, False])["key"][0]
    metrics = scan_table(lakehouse.events("metrics")).filter(pl.col("key") == key)
    values = metrics.top_k(_VALUES, by="timestamp").collect(engine="streaming").sort("timestamp", "value")
    figure, (panel,) = draw(width=9)
    _draw_series(panel, lakehouse, key, values)
    shown = emitted.filter(pl.col("key") == key, pl.col("event_time") >= values["timestamp"][0])
    for label, colour in (("normal", MAIN), ("anomalous", ALARM)):
        points = shown.filter(pl.col("label") == label)
        times, sizes = points["event_time"].to_numpy(), points["value"].to_numpy()
        panel.scatter(times, sizes, s=14, color=colour, label=f"emitted: {label}", zorder=3)
    panel.set_title(f"{key}: the most anomalies of {counts.height:,} keys")
    legend(panel)
    panel.tick_params(axis="x", rotation=20)
    return {"anomalies": picture(figure, f"Values, expected band and anomalies of {key}")}


def _draw_series(panel: "Axes", lakehouse: Lakehouse, key: str, values: pl.DataFrame) -> None:
    times = values["timestamp"].to_numpy()
    panel.plot(times, values["value"].to_numpy(), color=QUIET, label="value")
    model = MODELS[_model(lakehouse)]
    events = values.select(key="key", event_time="timestamp", value="value")
    predicted, _ = model.predict_then_learn(model.initial(pl.Series([key])), events)
    panel.plot(times, predicted["expected"].to_numpy(), color=MAIN, linewidth=0.8, label="expected")
    panel.fill_between(
        times, predicted["low"].to_numpy(), predicted["high"].to_numpy(), color=MAIN, alpha=0.15, linewidth=0
    )
    spread = values["value"].quantile(0.999) or 0.0, values["value"].quantile(0.001) or 0.0
    margin = 0.3 * max(spread[0] - spread[1], 1e-9)
    panel.set_ylim(min(values["value"].to_list()) - margin, max(values["value"].to_list()) + margin)


def _model(lakehouse: Lakehouse) -> str:
    parameters = live_parameters(lakehouse, "anomaly_predictions")
    if parameters is None:
        raise KeyfoldError("anomaly_predictions has not run")
    return parameters["model"]
