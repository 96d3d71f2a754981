"""What a catalog is told of runs: OpenLineage events, written to a file by the client's own transport."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pyarrow as pa
import pytest

import keyfold
from keyfold import Input, KeyfoldError, Misconfigured, open_lineage
from keyfold.operators import count, max, window_join, windows
from keyfold.runs import ingest_continuously, ingests, jobs, run_continuously
from tests.lake import LOCAL
from tests.shop import CLICKS
from tests.waiting import wait_until

JOB = windows("clicks_per_hour", CLICKS, {"n": count(), "most": max("clicks")}, key="user", length="1h")


@pytest.fixture
def events(tmp_path, monkeypatch):
    """The events up to now, by reading the file that the client writes."""
    file = tmp_path / "events.ndjson"
    settings = {"TYPE": "file", "LOG_FILE_PATH": str(file), "APPEND": "true"}
    for name, value in settings.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    return lambda: [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def land(lake):
    landing = lake.lakehouse.landing("clicks")
    landing.mkdir(parents=True)
    (landing / "1.ndjson").write_text('{"user": "ann", "at": "2026-01-01T00:00:00Z", "clicks": 3}\n')


def test_a_run_is_reported_with_its_tables_their_columns_and_what_these_depend_on(lake, events):
    land(lake)
    keyfold.ingest(lake.lakehouse, CLICKS, runners=LOCAL)
    keyfold.run(lake.lakehouse, JOB, runners=LOCAL)
    told = events()
    home = lake.lakehouse.home
    assert [(one["job"]["name"], one["eventType"]) for one in told] == [
        ("ingest.clicks", "START"),
        ("ingest.clicks", "COMPLETE"),
        ("clicks_per_hour", "START"),
        ("clicks_per_hour", "COMPLETE"),
    ]
    assert len({one["run"]["runId"] for one in told}) == 2
    assert [one["name"] for one in told[1]["inputs"]] == [str(home / "landing" / "clicks")]
    assert [one["name"] for one in told[1]["outputs"]] == [
        str(home / "events" / "clicks"),
        str(home / "quarantine" / "clicks"),
    ]
    assert [one["name"] for one in told[3]["inputs"]] == [str(home / "events" / "clicks")]
    (table,) = told[3]["outputs"]
    assert (table["namespace"], table["name"]) == ("file", str(home / "tables" / "clicks_per_hour"))
    assert [one["name"] for one in table["facets"]["schema"]["fields"]] == JOB.main.schema.names
    depends = table["facets"]["columnLineage"]["fields"]
    assert {name: [one["field"] for one in of["inputFields"]] for name, of in depends.items()} == {
        "user": ["user"],
        "window_start": ["at"],
        "window_end": ["at"],
        "n": ["at"],
        "most": ["clicks"],
    }


def test_an_input_is_reported_by_its_table_whatever_the_job_calls_it(lake, events):
    per_day = windows("per_day", Input(JOB.table(), at="window_start"), {"hours": count()}, key="user", length="1d")
    both = window_join("both", ("hourly", Input(JOB.table(), at="window_start")), ("raw", CLICKS), "user", length="1h")
    land(lake)
    keyfold.ingest(lake.lakehouse, CLICKS, runners=LOCAL)
    for job in (JOB, per_day, both):
        keyfold.run(lake.lakehouse, job, runners=LOCAL)
    home = lake.lakehouse.home
    read = {one["job"]["name"]: [table["name"] for table in one["inputs"]] for one in events()}
    assert read["per_day"] == [str(home / "tables" / "clicks_per_hour")]
    assert read["both"] == [str(home / "tables" / "clicks_per_hour"), str(home / "events" / "clicks")]


def test_a_run_that_fails_is_reported_with_keyfold_s_message(lake, events):
    with pytest.raises(KeyfoldError) as failed:
        keyfold.run(lake.lakehouse, JOB, runners=LOCAL)
    started, ended = events()
    assert (started["eventType"], ended["eventType"]) == ("START", "FAIL")
    assert ended["run"]["facets"]["errorMessage"]["message"] == str(failed.value).splitlines()[0]


def test_a_continuous_run_says_that_it_is_running_until_it_ends(lake, events, monkeypatch):
    land(lake)
    for module in (ingests, jobs):
        monkeypatch.setattr(module, "EVERY", 0.05)
    stop, now = threading.Event(), timedelta(0)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(ingest_continuously, lake.lakehouse, CLICKS, settle=now, stop=stop, runners=LOCAL)
        wait_until(lambda: lake.lakehouse.events("clicks").exists())
        pool.submit(run_continuously, lake.lakehouse, JOB, stop=stop, runners=LOCAL)
        wait_until(lambda: sum(one["eventType"] == "RUNNING" for one in events()) > 4)
        stop.set()
    for run, name in (("ingest.clicks", "clicks"), ("clicks_per_hour", "clicks_per_hour")):
        told = [one for one in events() if one["job"]["name"] == run]
        first, *between, last = (one["eventType"] for one in told)
        assert (first, set(between), last) == ("START", {"RUNNING"}, "COMPLETE")
        assert len({one["run"]["runId"] for one in told}) == 1
        assert {one["job"]["facets"]["jobType"]["processingType"] for one in told} == {"STREAMING"}
        assert told[0]["outputs"][0]["name"].endswith(f"/{name}")


@pytest.mark.parametrize(("raised", "told"), [(KeyboardInterrupt(), "ABORT"), (ValueError("hunter2"), "FAIL")])
def test_an_interrupted_run_is_told_apart_from_a_failed_one(events, raised, told):
    with pytest.raises(type(raised)), open_lineage.lineage_reported("run", [], [], None):
        raise raised
    assert [one["eventType"] for one in events()] == ["START", told]
    assert "hunter2" not in json.dumps(events())


def test_a_catalog_that_does_not_answer_is_a_warning_without_its_address(lake, monkeypatch):
    land(lake)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9/planted-token")
    told = keyfold.ingest(lake.lakehouse, CLICKS, runners=LOCAL).warnings
    assert len(told) == 1
    assert "this run could not be reported by OpenLineage" in told[0]
    assert "planted" not in told[0]
    assert keyfold.run(lake.lakehouse, JOB, runners=LOCAL).warnings == told
    # A continuous run says it at once, and not again with each event.
    stop, warned = threading.Event(), list[str]()
    stop.set()
    run_continuously(lake.lakehouse, JOB, stop=stop, on_warning=warned.append, runners=LOCAL)
    assert tuple(warned) == told


def test_a_catalog_without_the_library_is_refused_before_the_run(lake, monkeypatch):
    land(lake)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")

    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(open_lineage, "import_module", missing)
    with pytest.raises(Misconfigured, match=r"install keyfold\[lineage\], or unset it"):
        keyfold.ingest(lake.lakehouse, CLICKS, runners=LOCAL)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("s3a://lake/home/tables/rides", ("s3://lake", "home/tables/rides")),
        ("az://lake/tables/rides", ("az://lake", "tables/rides")),
        ("/data/rides", ("file", "/data/rides")),
    ],
)
def test_datasets_are_named_as_the_specification_says(place, name):
    assert open_lineage.Dataset(keyfold.Lakehouse(place).home, pa.schema([])).name == name
    assert open_lineage.Dataset("kafka://broker:9092/city.rides").name == ("kafka://broker:9092", "city.rides")
