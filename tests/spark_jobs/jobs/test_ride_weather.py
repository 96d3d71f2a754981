"""Rides with weather: each ride has the reading of its nearest station."""

import math
from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import KeyfoldError, TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.rows.codec import polars_schema
from spark_jobs.jobs.registry import JOBS
from spark_jobs.jobs.ride_weather.job import READING, RIDE
from spark_jobs.jobs.ride_weather.stations import AIRPORTS, load_stations, nearest_station
from tests.examples import examples
from tests.shop import NOON
from tests.spark_jobs.jobs.ride_oracle import metres

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
AT = dict(zip(AIRPORTS["station_id"], AIRPORTS.select("latitude", "longitude").rows(), strict=True))


def ride_weather(**parameters):
    return build_job(JOBS["ride_weather"], {"key_groups": 4, **parameters})


def frame(schema, rows):
    """Rows of some columns; the others are 1 where they may not be empty."""
    kinds = polars_schema(schema)
    filled = {field.name: 1.0 for field in schema if not field.nullable}
    return pl.DataFrame([{**filled, **row} for row in rows], schema=kinds)


def ride(name, at, station="JFK"):
    return {"ride_id": name, "start_time": NOON + at * MINUTE, "station_id": station}


def reading(at, temp, station="JFK"):
    return {"time": NOON + at * MINUTE, "temp": temp, "station_id": station}


def station_of(job, starts):
    """The station that a job gives to a start."""
    how = job.inputs["rides"].derived["station_id"]
    assert isinstance(how, pl.Expr)
    return starts.select(how).item()


def nearest_in_python(place):
    """The station by the oracle of the rides' own distances."""
    if place[0] is None:
        return ""

    def far(station):
        return metres(*({"latitude": north, "longitude": east} for north, east in (place, AT[station])))

    nearest = min(sorted(AT), key=far)
    return nearest if far(nearest) <= 50_000 else ""


def test_a_ride_has_the_newest_reading_of_its_station_at_its_start_two_hours_old_at_most():
    harness = TestHarness(ride_weather(longest_ride="0s", delay="0s"))
    rides = [ride("none", 9), ride("at once", 10), ride("later", 59), ride("newer", 60), ride("last", 180)]
    rides += [ride("old", 181), ride("far", 60, ""), ride("other", 60, "EWR")]
    readings = [reading(10, 1.0), reading(60, 2.0), reading(60, 9.0, "EWR"), reading(61, 3.0, "BOS")]
    harness.batch({"rides": frame(RIDE, rides), "weather": frame(READING, readings)}, advance_to=NOON + DAY)
    harness.assert_nothing_lost()
    assert harness.state.is_empty()
    found = harness.written["ride_weather"]
    assert found.height == len(rides)
    assert dict(found.select("ride_id", "temp").rows()) == {
        "none": None, "at once": 1.0, "later": 1.0, "newer": 2.0, "last": 2.0, "old": None, "far": None, "other": 9.0
    }  # fmt: skip
    assert found.filter(ride_id="last")["time"].to_list() == [NOON + HOUR]


@examples(200)
@given(st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=20))
def test_the_nearest_station_is_the_one_that_plain_python_finds(places):
    # Half of them near New York, where stations are close to one another.
    places += [(40.7 + north / 90, -73.9 + east / 180) for north, east in places] + [(None, None)]
    frame = pl.DataFrame(places, schema={"a": pl.Float64, "b": pl.Float64}, orient="row")
    found = frame.select(nearest_station(AIRPORTS, pl.col("a"), pl.col("b"), 50_000)).to_series().to_list()
    for place, station in zip(places, found, strict=True):
        expected = nearest_in_python(place)
        # As far away as each other, to a millimetre, either will do.
        assert station == expected or math.isclose(
            *(metres(*({"latitude": n, "longitude": e} for n, e in (place, AT[one]))) for one in (station, expected)),
            abs_tol=1e-3,
        )


def test_a_file_of_stations_takes_the_place_of_the_airports_and_belongs_to_the_generation(tmp_path):
    file = tmp_path / "stations.csv"
    file.write_text("station_id,latitude,longitude,name\n007,40.70,-74.00,Battery\nEWR,40.69,-74.17,Newark\n")
    job = ride_weather(stations=str(file))
    place = pl.DataFrame({"start_latitude": [40.71], "start_longitude": [-74.0]})
    assert station_of(job, place) == "007"
    assert job.contents != ride_weather().contents
    file.write_text("station_id,latitude,longitude\nEWR,40.690,-74.170\n007,40.70,-74.00\n")
    assert ride_weather(stations=str(file)).contents == job.contents


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("station_id,latitude\nA,1\n", "must be a CSV file with the columns station_id, latitude and longitude"),
        ("station_id,latitude,longitude\nA,here,2\n", "must be a CSV file"),
        ("station_id,latitude,longitude\nA,91,2\n", r"has a row \('A', 91.0, 2.0\)"),
        ("station_id,latitude,longitude\n,1,2\n", "each row has a station_id"),
        ("station_id,latitude,longitude\nA,1,2\nA,3,4\n", "station 'A' more than once"),
        ("station_id,latitude,longitude\n", "has no rows"),
        (None, "stations: .* does not exist; give the path of a CSV file with stations=PATH"),
    ],
)
def test_a_file_that_says_no_stations_is_refused(tmp_path, text, reason):
    file = tmp_path / "stations.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(KeyfoldError, match=reason):
        load_stations(str(file))
