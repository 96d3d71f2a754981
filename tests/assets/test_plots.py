"""Plots: drawn of the tables there are, left out where there is nothing to draw."""

import base64
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread

from assets.plots.fleet import plot_days, plot_trips, plot_warnings
from assets.plots.payments import plot_two_cities
from assets.plots.products import plot_categories, plot_models, plot_products
from assets.plots.rides import plot_meter_jumps, plot_rides
from assets.plots.weather import plot_averages, plot_ride_weather
from keyfold.dagster import plots
from keyfold.dagster.plots import plot_runs
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import empty
from keyfold.lakehouse import Lakehouse
from keyfold.times import micros
from spark_jobs.jobs.registry import JOBS
from spark_jobs.simulation.telemetry import GEOFENCES, telemetry_table
from tests.made_generations import put_done, put_generation


@pytest.fixture(autouse=True)
def tables_are_streamed(monkeypatch):
    """A table has no bound: read as a whole, the newest of 24 million points take 2.3 GB of memory, and streamed 0.2."""
    collect = pl.LazyFrame.collect

    def streamed(frame, *, engine="auto", **options):
        assert engine == "streaming"
        return collect(frame, engine=engine, **options)

    monkeypatch.setattr(pl.LazyFrame, "collect", streamed)


START = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = [START + timedelta(hours=hour) for hour in range(48)]


def put(lakehouse: Lakehouse, job: str, **tables: pl.DataFrame) -> None:
    """A generation of a job with tables; those not given are empty."""
    generation = put_generation(lakehouse, job)
    for table in build_job(JOBS[job]).tables:
        generation.table(table.name).parent.mkdir(exist_ok=True)
        rows = tables.get(table.name, empty(table.schema))
        rows.select(table.schema.names).write_delta(str(generation.table(table.name)))


def pixels(value: Any) -> np.ndarray:
    """The picture inside a Markdown value."""
    encoded = value.value.split("base64,")[1].rstrip(")")
    return imread(io.BytesIO(base64.b64decode(encoded)), format="png")


def is_drawn(value: Any) -> bool:
    return len(np.unique(pixels(value).reshape(-1, 4), axis=0)) > 10


def ride_tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    rides = pl.DataFrame({"ride_id": ["a", "b"], "reason": ["DROPOFF_SEEN", "GARBAGE_COLLECTION"]}).with_columns(
        start_time=pl.lit(START), end_time=pl.lit(HOURS[1]), ride_duration_in_secs=pl.Series([3600.0, 1800.0]),
        start_status=pl.lit("pickup"), end_status=pl.lit("enroute"), n_points=pl.lit(48, pl.Int64),
        distance_in_metres=pl.lit(10.0), fare=pl.lit(5.0), start_latitude=pl.lit(40.7), start_longitude=pl.lit(-73.9),
    )  # fmt: skip
    points = pl.concat(
        pl.DataFrame(
            {
                "ride_id": [ride] * 48,
                "timestamp": [START + timedelta(minutes=minute) for minute in range(48)],
                "latitude": [40.7 + 0.001 * at for at in range(48)],
                "longitude": [-73.9 - 0.001 * at for at in range(48)],
            }
        )
        for ride in ("a", "b", "elsewhere")
    )
    return rides, points


def test_rides_are_drawn_as_durations_and_as_a_map(lakehouse):
    rides, points = ride_tables()
    put(lakehouse, "ride_summaries", ride_summaries=rides)
    lakehouse.events("ride_points").parent.mkdir(parents=True)
    points.write_delta(str(lakehouse.events("ride_points")))
    drawn = plot_rides(lakehouse)
    assert set(drawn) == {"durations", "map"}
    assert all(is_drawn(value) for value in drawn.values())


def test_trips_are_drawn_as_a_map_and_the_hot_spots_beside_it(lakehouse):
    ticks = np.arange(0, 3600, 10) * 1_000_000 + micros(START)
    points = telemetry_table(np.random.default_rng(1), 4, ticks)
    harness = TestHarness(build_job(JOBS["vehicle_trips"]))
    harness.batch(points, advance_to=HOURS[-1])
    put(lakehouse, "vehicle_trips", vehicle_trips=harness.written["vehicle_trips"])
    lakehouse.events("telemetry").parent.mkdir(parents=True)
    points.write_delta(str(lakehouse.events("telemetry")))
    assert is_drawn(plot_trips(lakehouse)["map_and_hot_spots"])


def test_days_and_warnings_of_the_fleet_are_drawn(lakehouse):
    ticks = np.arange(0, 2 * 3600, 10) * 1_000_000 + micros(START + timedelta(hours=23))
    points = telemetry_table(np.random.default_rng(1), 12, ticks)
    warnings, trips, days = (
        build_job(JOBS[name], given)
        for name, given in (
            ("fleet_warnings", {"geofences": str(GEOFENCES)}),
            ("vehicle_trips", {}),
            ("fleet_days", {}),
        )
    )
    driven = written(trips, points)
    for job, events, plot, drawn in (
        (warnings, points, plot_warnings, "warnings_map"),
        (days, driven, plot_days, "days"),
    ):
        put(lakehouse, job.name, **{job.name: written(job, events)})
        assert is_drawn(plot(lakehouse)[drawn])


def written(job, events):
    harness = TestHarness(job)
    harness.batch(events, advance_to=HOURS[-1])
    return harness.written[job.name]


def test_averages_are_drawn_against_their_readings(lakehouse):
    averages = pl.DataFrame({"station_id": ["EWR"] * 48, "end_time": HOURS}).with_columns(
        start_time=pl.col("end_time") - timedelta(hours=9), pressure_avg=pl.lit(1000.0), temp_avg=pl.lit(40.0),
        n_readings=pl.lit(10, pl.Int64), reason=pl.lit("WINDOW_FULL"),
    )  # fmt: skip
    put(lakehouse, "moving_averages", moving_averages=averages, latest_moving_averages=averages.tail(1))
    lakehouse.events("weather").parent.mkdir(parents=True)
    readings = pl.DataFrame({"station_id": ["EWR"] * 48, "time": HOURS, "temp": np.linspace(30, 50, 48)})
    readings.write_delta(str(lakehouse.events("weather")))
    assert is_drawn(plot_averages(lakehouse)["readings_and_averages"])


def test_products_are_drawn_for_the_newest_window_that_is_over(lakehouse):
    windows = pl.DataFrame({"window_start": HOURS}).with_columns(
        window_end=pl.col("window_start") + timedelta(hours=1), n_sales=pl.lit(3, pl.Int64),
        n_products=pl.lit(2, pl.Int64), quantity=pl.lit(9, pl.Int64), revenue=pl.Series(np.arange(48.0)),
    )  # fmt: skip
    ranked = pl.DataFrame({"window_start": [HOURS[-1]] * 2, "rank": [1, 2], "product": ["tea", "cup"]}).with_columns(
        window_end=pl.col("window_start") + timedelta(hours=1), quantity=pl.Series([6, 3]), revenue=pl.lit(1.0)
    )
    put(lakehouse, "top_products", top_products=ranked, sales_windows=windows)
    assert is_drawn(plot_products(lakehouse)["best_sold"])


def test_models_are_drawn_with_those_that_sell_best(lakehouse):
    totals = pl.DataFrame({"model": ["", "Pro", "Air"], "quantity": [4, 9, -1], "purchases": [2, 3, 1]})
    put(lakehouse, "model_totals", model_totals=totals.with_columns(latest=pl.lit(START)))
    assert is_drawn(plot_models(lakehouse)["best_models"])


def test_rides_in_the_weather_and_categories_are_drawn(lakehouse):
    tables = {name: empty(build_job(JOBS[name]).main.schema) for name in ("ride_weather", "sales_with_products")}
    rides = pl.DataFrame({"temp": [40.0, 60.0], "precip": [0.0, 0.2], "start_time": HOURS[:2]}).with_columns(
        distance_in_metres=pl.lit(5000.0), ride_duration_in_secs=pl.Series([600.0, 900.0])
    )
    sales = pl.DataFrame({"time": HOURS[:2], "category": ["Home", None], "price": [2.0, 3.0], "quantity": [4, 1]})
    for (name, table), rows in zip(tables.items(), (rides, sales), strict=True):
        put(lakehouse, name, **{name: pl.concat([table, rows], how="diagonal")})
    assert is_drawn(plot_ride_weather(lakehouse)["rides_in_weather"])
    assert is_drawn(plot_categories(lakehouse)["categories"])


def test_meters_that_jump_are_drawn(lakehouse):
    jumps = pl.DataFrame({"ride_id": ["a", "b"], "last_time": HOURS[:2], "last_meter_reading": [14.0, 9.0]}).with_columns(
        pattern=pl.lit("jump"), first_time=pl.col("last_time"), first_point_idx=pl.lit(3, pl.Int32),
        last_point_idx=pl.lit(4, pl.Int32), first_meter_reading=pl.lit(3.0),
    )  # fmt: skip
    put(lakehouse, "ride_meter_jumps", ride_meter_jumps=jumps)
    assert is_drawn(plot_meter_jumps(lakehouse)["jumps"])


def test_cards_in_two_cities_are_drawn_and_no_card_is_named(lakehouse):
    matches = pl.DataFrame({"last_time": HOURS[:9], "first_payment_id": [f"a{at}" for at in range(9)]}).with_columns(
        card=pl.lit("9999"), pattern=pl.lit("two_cities"), first_time=pl.col("last_time"), first_city=pl.lit("Ulm"),
        last_city=pl.lit("Trier"), first_amount=pl.lit(1.0), last_amount=pl.lit(2.0), first_merchant=pl.lit("kiosk"),
        last_merchant=pl.lit("kiosk"), last_payment_id=pl.col("first_payment_id") + "b",
    )  # fmt: skip
    put(lakehouse, "card_in_two_cities", card_in_two_cities=matches)
    drawn = plot_two_cities(lakehouse)["two_cities"]
    assert is_drawn(drawn)
    assert "9999" not in str(drawn.value).partition("base64")[0]


@pytest.mark.parametrize(
    ("job", "plot"),
    [
        ("ride_meter_jumps", plot_meter_jumps),
        ("card_in_two_cities", plot_two_cities),
        ("ride_summaries", plot_rides),
        ("vehicle_trips", plot_trips),
        ("fleet_days", plot_days),
        ("fleet_warnings", plot_warnings),
        ("moving_averages", plot_averages),
        ("ride_weather", plot_ride_weather),
        ("sales_with_products", plot_categories),
        ("top_products", plot_products),
        ("model_totals", plot_models),
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


def test_one_batch_is_one_bar_and_one_point_over_whole_numbers(lakehouse, monkeypatch):
    figures: list[Any] = []
    monkeypatch.setattr(plots, "picture", lambda figure, _: figures.append(figure))
    put(lakehouse, "ride_summaries")
    put_done(put_generation(lakehouse, "ride_summaries"), 0, events=10, open_events=2)
    plot_runs(lakehouse, "ride_summaries")
    figures[0].canvas.draw()
    for panel in figures[0].axes:
        assert panel.get_xlim() == (-1, 1)
        assert panel.get_ylim()[0] == 0
        ticks = [*panel.get_xticks(), *panel.get_yticks()]
        assert [tick for tick in ticks if tick != int(tick)] == []
    (bar,) = figures[0].axes[0].patches
    assert bar.get_height() == 10
    (line,) = figures[0].axes[1].lines
    assert (line.get_marker(), list(line.get_ydata())) == (".", [2])
