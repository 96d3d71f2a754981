"""The weather is such as a station could report, in the layout of nycflights13."""

from datetime import timedelta
from itertools import pairwise
from statistics import mean
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from keyfold.times import micros
from spark_jobs.simulation import simulate
from spark_jobs.simulation.contract import HOUR
from spark_jobs.simulation.weather import weather_table
from spark_jobs.streams import WEATHER
from tests.spark_jobs.simulation.conftest import START
from tests.spark_jobs.simulation.reading import read


def test_every_station_reports_every_hour_until_it_falls_silent(calls):
    call, _ = calls("weather")
    silent = call.summary.silent
    assert len(call.found.keys) == call.summary.stations == 6
    assert len(silent) == 1
    for station in call.found.keys:
        times = [event["time"] for event in call.found.of(station)]
        assert times[0] == START
        assert {after - before for before, after in pairwise(times)} == {timedelta(hours=1)}
        assert times[-1] == silent.get(station, call.summary.end - timedelta(hours=1))
        assert (len(times) < 60) == (station in silent)


def test_calendar_fields_are_the_local_time_of_time_hour(calls):
    for event in calls("weather")[0].found.events:
        local = event["time"].astimezone(ZoneInfo("America/New_York"))
        given = tuple(int(event[name]) for name in ("year", "month", "day", "hour"))
        assert given == (local.year, local.month, local.day, local.hour)


def test_readings_say_where_their_station_stands_where_that_is_known(tmp_path):
    simulate("weather", tmp_path, size=8, start=START)
    found = read("weather", tmp_path, tmp_path.iterdir())
    told = {event["key"]: event["location"] for event in found.events}
    assert (told["JFK"], told["S00007"]) == ("Queens NY", "NA")
    assert len({(event["key"], event["location"]) for event in found.events}) == 8


def test_about_one_pressure_in_ten_is_missing(tmp_path):
    made = simulate("weather", tmp_path, size=60, start=START)
    found = read("weather", tmp_path, tmp_path.iterdir())
    missing = sum(event["pressure"] == "NA" for event in found.events)
    assert missing == vars(made)["without_pressure"]
    assert missing / len(found.events) == pytest.approx(0.1, abs=0.015)


def test_days_are_warmer_than_nights_and_values_are_possible(calls):
    events = calls("weather")[0].found.events
    at = {hour: mean(event["temp"] for event in events if int(event["hour"]) == hour) for hour in (3, 15)}
    assert at[15] > at[3] + 8
    for event in events:
        assert 0 < float(event["humid"]) <= 100
        assert float(event["dewp"]) <= event["temp"]
        assert event["pressure"] == "NA" or 995 < float(event["pressure"]) < 1035


def test_pressure_drifts_and_never_jumps():
    hours = np.arange(240) * HOUR + micros(START)
    table = weather_table(np.random.default_rng(1), 6, hours)
    assert table.schema == pl.DataFrame(WEATHER.schema.empty_table()).schema
    steps = table.sort("time").select(pl.col("pressure").forward_fill().diff().over("station_id").abs().max()).item()
    spans = table.group_by("station_id").agg(pl.col("pressure").max() - pl.col("pressure").min())
    assert steps < 5
    assert spans["pressure"].min() > 8  # type: ignore[operator]
    later = weather_table(np.random.default_rng(2), 6, hours[120:])
    both = table.join(later, on=["station_id", "time"])
    assert len(both) == len(later)
    apart = both.select((pl.col("pressure") - pl.col("pressure_right")).abs().max()).item()
    assert apart < 2, "another call, with another seed, goes on with the same weather"
