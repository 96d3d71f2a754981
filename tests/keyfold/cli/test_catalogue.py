"""What the project declares, as the command line lists it; and names that it does not have."""

import json
import re

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from keyfold import Input, Stream, ingest, required, run
from keyfold.errors import NotFound
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.parameters import describe_parameters
from keyfold.operators import count, windows
from keyfold.runners import Runners
from keyfold.stream import TIMESTAMP
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS


@pytest.fixture
def no_spark(monkeypatch):
    def fail(*_):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("keyfold.session.start.build_session", fail)


def test_jobs_are_listed_with_their_stream_key_and_tables(keyfold):
    jobs = {one["job"]: one for one in json.loads(keyfold("jobs", "--json").stdout)["jobs"]}
    assert list(jobs) == list(JOBS)
    assert jobs["vehicle_trips"]["stream"] == "telemetry"
    assert jobs["vehicle_trips"]["key"] == ["vehicle_id"]
    assert {"vehicle_trips", "vehicle_stops", "late.vehicle_trips"} <= set(jobs["vehicle_trips"]["tables"])
    shown = keyfold("jobs").stdout
    assert all(f"{name} " in shown for name in JOBS)


def test_streams_are_listed_with_their_times_ids_and_columns(keyfold):
    streams = {one["stream"]: one for one in json.loads(keyfold("streams", "--json").stdout)["streams"]}
    assert list(streams) == list(STREAMS)
    for name, stream in STREAMS.items():
        assert streams[name]["event_time"] == stream.event_time
        assert streams[name]["event_id"] == list(stream.event_id)
        assert list(streams[name]["columns"]) == stream.schema.names
        assert f"{name} " in keyfold("streams").stdout


def test_every_declared_table_is_listed_and_nothing_is_made_in_a_home_that_is_not_there(keyfold, lakehouse):
    tables = {one["table"]: one for one in json.loads(keyfold("show", "--json").stdout)["tables"]}
    declared = {table.name for template in JOBS.values() for table in build_job(template).tables}
    assert tables.keys() == declared | {f"{kind}.{name}" for name in STREAMS for kind in ("events", "quarantine")}
    assert {one["rows"] for one in tables.values()} == {None}
    assert tables["vehicle_stops"]["written_by"] == "job vehicle_trips"
    assert not lakehouse.home.exists()


def test_a_table_that_is_there_has_its_rows_and_its_place(keyfold, lakehouse):
    write_deltalake(str(lakehouse.events("sales")), pa.table({"item": ["a", "b"]}))
    (tables,) = (json.loads(keyfold("show", "--json").stdout)["tables"],)
    (sales,) = (one for one in tables if one["table"] == "events.sales")
    assert (sales["rows"], sales["path"]) == (2, str(lakehouse.events("sales")))
    assert re.search(r"events\.sales +stream sales .* 2\s", keyfold("show").stdout)


@pytest.mark.parametrize("job", JOBS)
def test_a_default_is_a_value_that_the_parameter_takes(job):
    template = JOBS[job]
    described = describe_parameters(template.parameter_fields)
    assert [one.name for one in described] == list(template.parameter_fields)
    given = {one.name: one.default for one in described if one.default is not None and one.type != "file"}
    assert build_job(template, given).parameters == build_job(template).parameters
    assert all(one.description for one in described)


def test_parameters_are_listed_with_type_and_default(keyfold):
    told = json.loads(keyfold("jobs", "event_index", "--json").stdout)
    found = {one["name"]: (one["type"], one["default"]) for one in told["parameters"]}
    assert told["job"] == "event_index"
    assert found["time"] == ("event | arrival", "event")
    assert found["key"] == ("names", "ride_id")
    assert found["window"] == ("window", None)
    assert found["delay"] == ("duration", "10m")
    assert found["key_groups"] == ("whole number", "64")
    assert re.search(r"delay +duration +10m +How far", keyfold("jobs", "event_index").stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "ride_sumaries"), "no job 'ride_sumaries'. Did you mean 'ride_summaries'? Known: ride_summaries, "),
        (("jobs", "ride_sumaries"), "Did you mean 'ride_summaries'?"),
        (("plan", "ride_sumaries"), "Did you mean 'ride_summaries'?"),
        (("state", "read", "ride_sumaries"), "Did you mean 'ride_summaries'?"),
        (("state", "stats", "ride_sumaries"), "Did you mean 'ride_summaries'?"),
        (("state", "diff", "ride_sumaries", "1"), "Did you mean 'ride_summaries'?"),
        (("ingest", "telemetri"), "no stream 'telemetri'. Did you mean 'telemetry'? Known: ride_points, "),
        (("journal", "telemetri"), "no job or stream 'telemetri'. Did you mean 'telemetry'?"),
        (("show", "events.telemetri"), "no table 'events.telemetri'. Did you mean 'events.telemetry'?"),
        (("state", "raed"), "Did you mean 'read'?"),
        (("drift", "telemetri"), "Did you mean 'telemetry'?"),
        (("plan", "ride_summaries", "--param", "timeout=soon"), "timeout is 'soon'"),
    ],
)
def test_an_unknown_name_is_bad_usage_before_spark_starts_and_the_nearest_is_named(
    keyfold, no_spark, arguments, message
):
    told = keyfold(*arguments)
    assert told.exit_code == 2, told.output
    assert message in " ".join(told.stderr.split())


def test_a_missing_folder_is_an_error_before_spark_starts(keyfold, no_spark, lakehouse, tmp_path):
    told = keyfold("ingest", "sales", "--from", str(tmp_path / "no such folder"))
    assert told.exit_code == 1
    assert told.stderr.startswith(f"error: the landing folder {tmp_path}/no such folder does not exist")
    assert not lakehouse.home.exists()


def test_h_and_version_are_options_everywhere_and_of_the_whole(keyfold):
    told = keyfold("--version")
    assert re.fullmatch(r"keyfold \d+\.\d+\.\d+\n", told.stdout)
    for arguments in ((), ("run",), ("state",), ("state", "read"), ("new",)):
        told = keyfold(*arguments, "-h")
        assert told.exit_code == 0
        assert "Show this message and exit." in told.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("show", "events.clicks "),
        ("show per_hour", "1 of 1 rows"),
        ("show quarantine.clicks", "reason  file  line  batch  header  raw"),
        ("state stats per_hour", "rows: 1\nkeys: 1\n"),
        ("state read per_hour", '"user":"bob"'),
        ("journal per_hour", "2 events"),
        ("journal clicks", "2 rows: 2 accepted"),
    ],
)
def test_where_there_is_no_project_all_that_the_lakehouse_has_is_read(keyfold, lakehouse, monkeypatch, command, said):
    click = pa.schema([required("user", pa.string(), "Who"), required("at", TIMESTAMP, "When")])
    clicks = Stream("clicks", click, event_time="at")
    per_hour = windows("per_hour", Input(clicks, delay="5m"), {"clicks": count()}, key="user", length="1h")
    lakehouse.landing("clicks").mkdir(parents=True)
    (lakehouse.landing("clicks") / "1.csv").write_text("user,at\nann,2026-01-01T09:05Z\nbob,2026-01-01T10:20Z")
    ingest(lakehouse, clicks, runners=Runners("local"))
    run(lakehouse, per_hour, runners=Runners("local"))

    def no_project():
        raise NotFound("no project")

    monkeypatch.setattr("keyfold.project.project_folder", no_project)
    done = keyfold(*command.split())
    assert done.exit_code == 0, done.output
    assert said in done.output
