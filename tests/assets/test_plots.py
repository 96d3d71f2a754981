"""Plots: drawn of the tables there are, left out where there is nothing to draw."""

import base64
import io
from datetime import timedelta
from typing import Any

import dagster as dg
import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread

from assets.plots.fleet import plot_trips
from assets.plots.products import plot_products
from assets.plots.rides import plot_rides
from assets.plots.weather import plot_averages
from keyfold.dagster import plots
from keyfold.dagster.plots import in_one_entry, plot_runs
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import empty
from keyfold.lakehouse import Lakehouse
from keyfold.times import micros
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation.telemetry import telemetry_table
from tests.made_generations import put_done, put_generation
from tests.shop import START


@pytest.fixture(autouse=True)
def tables_are_streamed(monkeypatch):
    """A table has no bound: read as a whole, the newest of 24 million points take 2.3 GB of memory, and streamed 0.2."""
    collect = pl.LazyFrame.collect

    def streamed(frame, *, engine="auto", **options):
        assert engine == "streaming"
        return collect(frame, engine=engine, **options)

    monkeypatch.setattr(pl.LazyFrame, "collect", streamed)


HOURS = [START + timedelta(hours=hour) for hour in range(48)]


def put(lakehouse: Lakehouse, job: str, **tables: pl.DataFrame) -> None:
    """A generation of a job with tables, whose columns that are not given are NULL; those not given are empty."""
    generation = put_generation(lakehouse, job)
    for table in build_job(JOBS[job]).tables:
        generation.table(table.name).parent.mkdir(exist_ok=True)
        rows = [empty(table.schema), *([tables[table.name]] if table.name in tables else [])]
        whole = pl.concat(rows, how="diagonal_relaxed").select(table.schema.names)
        whole.write_delta(str(generation.table(table.name)))


def land(lakehouse: Lakehouse, stream: str, events: pl.DataFrame) -> None:
    lakehouse.events(stream).parent.mkdir(parents=True)
    events.write_delta(str(lakehouse.events(stream)))


def pixels(value: Any) -> np.ndarray:
    """The picture inside a Markdown value."""
    encoded = value.value.split("base64,")[1].rstrip(")")
    return imread(io.BytesIO(base64.b64decode(encoded)), format="png")


def is_drawn(value: Any) -> bool:
    return len(np.unique(pixels(value).reshape(-1, 4), axis=0)) > 10


def test_rides_are_drawn_as_durations_and_as_a_map(lakehouse):
    rides = pl.DataFrame({"ride_id": ["a", "b"], "reason": ["DROPOFF_SEEN", "GARBAGE_COLLECTION"]}).with_columns(
        start_time=pl.lit(START), end_time=pl.lit(HOURS[1]), ride_duration_in_secs=pl.Series([3600.0, 1800.0])
    )
    minutes = pl.DataFrame({"at": range(48)}).select(
        timestamp=START + pl.duration(minutes="at"),
        latitude=40.7 + 0.001 * pl.col("at"),
        longitude=-73.9 - 0.001 * pl.col("at"),
    )
    land(lakehouse, "ride_points", pl.DataFrame({"ride_id": ["a", "b", "elsewhere"]}).join(minutes, how="cross"))
    put(lakehouse, "ride_summaries", ride_summaries=rides)
    drawn = plot_rides(lakehouse)
    assert set(drawn) == {"durations", "map"}
    assert all(is_drawn(value) for value in drawn.values())


def test_trips_are_drawn_as_a_map(lakehouse):
    ticks = np.arange(0, 3600, 10) * 1_000_000 + micros(START)
    points = telemetry_table(np.random.default_rng(1), 4, ticks)
    harness = TestHarness(build_job(JOBS["vehicle_trips"]))
    harness.batch(points, advance_to=HOURS[-1])
    put(lakehouse, "vehicle_trips", vehicle_trips=harness.written["vehicle_trips"])
    land(lakehouse, "telemetry", points)
    assert is_drawn(plot_trips(lakehouse)["map"])


def test_averages_are_drawn_against_their_readings(lakehouse):
    averages = pl.DataFrame({"station_id": ["EWR"] * 48, "end_time": HOURS, "pressure_avg": 1000.0, "temp_avg": 40.0})
    put(lakehouse, "moving_averages", moving_averages=averages, latest_moving_averages=averages.tail(1))
    readings = {"station_id": ["EWR"] * 48, "time": HOURS, "temp": np.linspace(30, 50, 48)}
    land(lakehouse, "weather", pl.DataFrame(readings))
    assert is_drawn(plot_averages(lakehouse)["readings_and_averages"])


WINDOWS = {
    "window_start": HOURS,
    "window_end": [hour + timedelta(hours=1) for hour in HOURS],
    "revenue": np.arange(48.0),
}
RANKED = {"window_start": [HOURS[-1]] * 2, "rank": [1, 2], "product": ["tea", "cup"], "quantity": [6, 3]}


def test_products_are_drawn_with_the_revenue_of_windows(lakehouse):
    put(lakehouse, "top_products", sales_windows=pl.DataFrame(WINDOWS), top_products=pl.DataFrame(RANKED))
    assert is_drawn(plot_products(lakehouse)["best_sold"])


@pytest.mark.parametrize(
    ("job", "plot"),
    [
        ("ride_summaries", plot_rides),
        ("vehicle_trips", plot_trips),
        ("moving_averages", plot_averages),
        ("top_products", plot_products),
    ],
)
def test_empty_tables_give_no_plot(lakehouse, job, plot):
    put(lakehouse, job)
    assert plot(lakehouse) == {}


def test_throughput_and_state_are_drawn_of_the_batches_there_were(lakehouse):
    assert plot_runs(lakehouse, "ride_summaries") == {}
    put(lakehouse, "ride_summaries")
    for batch in range(9, 12):
        put_done(put_generation(lakehouse, "ride_summaries"), batch, events=10 * batch, open_events=batch)
    assert is_drawn(plot_runs(lakehouse, "ride_summaries")["throughput_and_state"])


@pytest.mark.parametrize(("batches", "panels"), [(1, 0), (2, 0), (3, 2)])
def test_fewer_than_three_batches_are_not_drawn_and_more_over_whole_numbers(lakehouse, monkeypatch, batches, panels):
    figures: list[Any] = []
    monkeypatch.setattr(plots, "picture", lambda figure, _: figures.append(figure))
    put(lakehouse, "ride_summaries")
    for batch in range(batches):
        put_done(put_generation(lakehouse, "ride_summaries"), batch, events=10, open_events=2)
    plot_runs(lakehouse, "ride_summaries")
    drawn = [panel for figure in figures for panel in figure.axes]
    assert len(drawn) == panels
    for panel in drawn:
        panel.figure.canvas.draw()
        assert panel.get_xlim() == (-1, batches)
        assert panel.get_ylim()[0] == 0
        ticks = [*panel.get_xticks(), *panel.get_yticks()]
        assert [tick for tick in ticks if tick != int(tick)] == []


def test_pictures_are_one_entry_below_each_other():
    pictures = {"durations": dg.MetadataValue.md("![a](x)"), "map": dg.MetadataValue.md("![b](y)")}
    assert in_one_entry({**pictures, "rides": dg.MetadataValue.int(3)}) == {
        "plots": dg.MetadataValue.md("![a](x)\n\n![b](y)"),
        "rides": dg.MetadataValue.int(3),
    }
    assert in_one_entry({}) == {}
