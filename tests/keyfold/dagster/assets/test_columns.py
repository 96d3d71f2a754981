"""Columns as Dagster shows them, and what they are made of."""

import dataclasses

import dagster as dg
import polars as pl
import pyarrow as pa
import pytest

from keyfold import Input
from keyfold.columns import column, required
from keyfold.dagster.assets.metadata import column_lineage, column_schema
from keyfold.errors import KeyfoldError
from keyfold.keyed.job.building import build_job
from keyfold.operators import Held, Last, alert, rows
from spark_jobs.jobs.registry import JOBS

TRIP = pa.schema(
    [
        required("bus", pa.string(), "The bus"),
        column("speed", pa.float64(), "Mean speed", unit="km/h"),
        pa.field("bare", pa.int8()),
    ]
)


def sources(job, name):
    (table,) = [table for table in job.tables if table.name == name]
    lineage = column_lineage(job, table).deps_by_column
    assert {dep.asset_key for deps in lineage.values() for dep in deps} == {
        dg.AssetKey(f"{job.only_input.stream.name}_events")
    }
    return {name: {dep.column_name for dep in deps} for name, deps in lineage.items()}


def test_a_column_has_its_type_its_meaning_its_unit_and_what_it_may_not_lack():
    bus, speed, bare = column_schema(TRIP).columns
    assert (bus.name, bus.type, bus.description, bus.tags) == ("bus", "string", "The bus", {})
    assert (speed.type, speed.description, speed.tags) == ("double", "Mean speed, km/h", {"unit": "km/h"})
    assert (bare.type, bare.description) == ("int8", None)
    assert [one.constraints.nullable for one in (bus, speed, bare)] == [False, True, True]


def test_the_key_of_a_table_is_unique_only_where_it_is_one_column():
    unique = {
        key: [one.constraints.unique for one in column_schema(TRIP, key).columns]
        for key in (("bus",), ("bus", "speed"))
    }
    assert unique == {("bus",): [True, False, False], ("bus", "speed"): [False, False, False]}


def test_a_column_is_made_of_those_that_its_declaration_names():
    found = sources(build_job(JOBS["vehicle_trips"]), "vehicle_trips")
    assert found["average_speed"] == {"latitude", "longitude", "time", "speed"}
    assert found["trip_id"] == {"vehicle_id", "time", "speed"}
    assert len(found) == 20


def test_columns_of_another_stream_or_parameter_are_made_of_what_the_job_then_reads():
    job = build_job(JOBS["event_index"], {"stream": "sales", "key": "item"})
    found = sources(job, "event_index")
    assert found["event_index"] == {"item", "time"}
    assert found["price"] == {"price"}
    job = build_job(JOBS["moving_averages"], {"columns": "humid"})
    assert sources(job, "moving_averages")["humid_avg"] == {"humid", "time"}
    (humid,) = [one for one in column_schema(job.main.schema).columns if one.name == "humid_avg"]
    assert humid.tags == {"unit": "%"}


def test_late_events_are_the_stream_s_own_but_for_what_the_job_has_derived():
    assert sources(build_job(JOBS["moving_averages"]), "late.moving_averages") == {
        name: {name} for name in ("station_id", "time", "pressure", "temp")
    }
    late = sources(build_job(JOBS["top_products"]), "late.top_products")
    assert (late["revenue"], late["quantity"]) == ({"quantity", "price"}, {"quantity"})


@pytest.mark.parametrize(
    "make",
    [
        lambda trips: rows("newest", trips, keep=Last(), key="vehicle_id"),
        lambda trips: alert(
            "newest", trips, {"FAST": Held(pl.col("top_speed") > 90, pl.col("top_speed") < 50)}, key="vehicle_id"
        ),
    ],
)
def test_columns_of_a_job_on_another_s_table_are_made_of_those_of_the_table(make):
    read = ("vehicle_id", "end_time", "top_speed")
    job = make(Input(JOBS["vehicle_trips"].table(), at="end_time", columns=read))
    for table in job.tables:
        lineage = column_lineage(job, table).deps_by_column
        assert {name: {dep.column_name for dep in lineage[name]} for name in read} == {name: {name} for name in read}


def test_a_column_that_is_said_to_be_made_of_one_which_the_stream_lacks_is_refused():
    job = build_job(JOBS["vehicle_trips"])
    wrong = pa.schema([*job.main.schema, column("tip", pa.float64(), "Given", lineage="speed cash")])
    table = dataclasses.replace(job.tables[0], schema=wrong)
    with pytest.raises(KeyfoldError, match="column tip names the source cash, which stream telemetry does not have"):
        column_lineage(job, table)
