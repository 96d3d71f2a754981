"""The health of jobs and streams: what is unusual is told, what cannot be compared is not."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from keyfold.dagster.assets import health_checks
from keyfold.dagster.resources import Keyfold
from keyfold.keyed.generation.declaration import declaration_of
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs import ingest
from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
from spark_jobs.streams import METRICS, SALES, WEATHER
from tests.keyfold.keyed.toy_jobs import windows, windows_step
from tests.made_generations import NOW, put_done, put_generation

JOB = RIDE_SUMMARIES.name


def batches(lakehouse: Lakehouse, *records: tuple[int, int, int], first: int = 0) -> None:
    """Records of batches of (events, late, open events after it)."""
    generation = put_generation(lakehouse, JOB)
    for number, (events, late, still_open) in enumerate(records, first):
        put_done(generation, number, events=events, rows={JOB: 1, f"late.{JOB}": late}, open_events=still_open)


def test_where_there_is_nothing_to_compare_a_check_says_so(lakehouse):
    batches(lakehouse, (0, 0, 0))
    assert health_checks.lateness(lakehouse, JOB) == (True, "no events in the last batches")
    lakehouse.landing("weather").mkdir(parents=True)
    assert health_checks.drift(WEATHER, lakehouse.landing("weather")) == (True, "no files in the landing folder")


def test_many_late_events_are_told(lakehouse):
    batches(lakehouse, (100, 4, 0))
    assert health_checks.lateness(lakehouse, JOB)[0]
    batches(lakehouse, (100, 6, 0))
    assert health_checks.lateness(lakehouse, JOB) == (False, "6 of 100 events of the last 1 batches were late")


def test_many_quarantined_rows_are_told_with_where_to_see_them(lakehouse):
    assert health_checks.quarantined(lakehouse, "weather") == (True, "no rows in the last batches")
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True)
    for file, bad in (("a", 0), ("b", 3)):
        readings = [{"station_id": file, "time": f"2026-01-01T{at:02}:00:00Z", "temp": 50.0} for at in range(20)]
        broken = ["{}"] * bad
        (landing / f"{file}.ndjson").write_text("\n".join([*map(json.dumps, readings), *broken]) + "\n")
        ingest(lakehouse, WEATHER, landing, settle=timedelta(0), runners=Runners("local"))
        passed, text = health_checks.quarantined(lakehouse, "weather")
        assert passed is not bool(bad)
    assert text.startswith("3 of 43 rows of the last 2 batches were quarantined, most often for: ")
    assert "See `keyfold show quarantine.weather`" in text


def readings(station: str, count: int, time: str = "2026-01-01T{:02}:{:02}:00Z") -> bytes:
    rows = ({"station_id": station, "time": time.format(at // 60, at % 60), "temp": 50.0} for at in range(count))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("changed.ndjson", readings("b", 30, "01.02.2026 {:02}h{:02}"), "bad as a whole: changed.ndjson"),
        ("broken.ndjson.gz", gzip.compress(readings("b", 30))[:-20], "unreadable: broken.ndjson.gz"),
        ("few.ndjson", readings("b", 30) + b"{}\n", ""),
    ],
)
def test_a_file_that_is_bad_as_a_whole_is_told_however_many_good_rows_there_are(lakehouse, name, content, told):
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True)
    (landing / "good.ndjson").write_bytes(readings("a", 1_000))
    (landing / name).write_bytes(content)
    ingest(lakehouse, WEATHER, landing, settle=timedelta(0), runners=Runners("local"))
    passed, text = health_checks.quarantined(lakehouse, "weather")
    assert passed is not bool(told)
    assert told in text
    assert passed or "most often for: " in text


def test_a_bad_newest_batch_is_told_after_many_good_ones(lakehouse):
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True)
    for name, content in (("a", readings("a", 1_000)), ("b", readings("b", 50) + b"{}\n" * 9)):
        (landing / f"{name}.ndjson").write_bytes(content)
        ingest(lakehouse, WEATHER, landing, settle=timedelta(0), runners=Runners("local"))
    passed, text = health_checks.quarantined(lakehouse, "weather")
    assert not passed
    assert text.startswith("9 of 1,059 rows of the last 2 batches were quarantined, most often for: ")


def test_event_time_far_behind_the_clock_is_told(lakehouse):
    assert health_checks.lag(lakehouse, JOB, NOW) == (True, "no events yet")
    put_done(put_generation(lakehouse, JOB), 0, events=1, watermark=NOW - timedelta(hours=26))
    assert health_checks.lag(lakehouse, JOB, NOW)[0]
    late, text = health_checks.lag(lakehouse, JOB, NOW + timedelta(minutes=6))
    assert not late
    assert "26.1 hours behind" in text


def test_files_with_other_columns_are_named_with_the_columns(lakehouse):
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True)
    good = landing / "good.csv.gz"
    good.write_bytes(gzip.compress(b"origin,year,temp,time_hour\nEWR,2013,39,2013-01-01T06:00:00Z\n"))
    assert health_checks.drift(WEATHER, landing)[0]
    (landing / "new.csv").write_text("origin,temp_celsius,when\nEWR,4,2013-01-01T06:00:00Z\n")
    (landing / "unreadable.csv.gz").write_bytes(b"no gzip")
    passed, text = health_checks.drift(WEATHER, landing)
    assert not passed
    assert text == "new.csv has temp_celsius, when, unknown to weather"


def test_names_in_files_are_told_without_marks_that_a_page_would_take_for_markup(lakehouse):
    landing = lakehouse.landing("metrics")
    landing.mkdir(parents=True)
    (landing / "![x](\\\\evil.example\\b.png).csv").write_text("timestamp,value,![x](http://evil.example/b.png)\n")
    _, text = health_checks.drift(METRICS, landing)
    assert "evil.example" in text
    assert not set(text) & set("![]<>/\\`*#|")


def test_reasons_of_our_own_are_told_as_they_are(lakehouse):
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True)
    (landing / "a.csv").write_text("station_id,time,temp\nEWR,2026-01-01T00:00:00Z,1,2\n,,\n")
    (landing / "b.other").write_text("x\n")
    ingest(lakehouse, WEATHER, landing, settle=timedelta(0), runners=Runners("local"))
    passed, text = health_checks.quarantined(lakehouse, "weather")
    assert not passed
    assert "the row has 4 fields, the header 3 (1)" in text
    assert "(.ndjson, .jsonl, .json and .csv, also with .gz, and .parquet) (1)" in text
    assert "\N{REPLACEMENT CHARACTER}" not in text


def test_of_a_stream_with_private_columns_unknown_ones_are_counted_and_not_named(lakehouse):
    landing = lakehouse.landing("sales")
    landing.mkdir(parents=True)
    (landing / "no_header.csv").write_text("tea,Ada Lovelace,2026-01-01T00:00:00Z,1\n")
    passed, text = health_checks.drift(SALES, landing)
    assert not passed
    assert "has 4 columns, unknown to sales" in text
    assert "Ada" not in text


def test_a_job_that_differs_from_its_live_generation_is_told_with_what_was_changed(lake, lakehouse):
    assert health_checks.changed(lakehouse, windows()) == (True, "the job has not run yet")
    lake.click(("ann", 0))
    lake.run(windows())
    assert health_checks.changed(lakehouse, windows()) == (True, "generation-0001 is of this code")
    passed, text = health_checks.changed(lakehouse, windows(delay="9m"))
    assert (passed, "input clicks: delay: 5m → 9m (a move: " in text, "`keyfold plan windows" in text) == (
        False,
        True,
        True,
    )

    def step(state, events, clock):
        return windows_step(state, events, clock)

    other = windows(step=step)
    assert not health_checks.changed(lakehouse, other)[0]
    lake.click(("ann", 1))
    lake.run(other)
    passed, text = health_checks.changed(lakehouse, other)
    assert (passed, "generation-0001 is of this code; since batch 1: step: code changed" in text) == (True, True)


def test_the_checks_of_a_job_run_in_dagster_and_only_warn(lakehouse):
    now = datetime.now(UTC)
    declaration = declaration_of(RIDE_SUMMARIES).model_dump(mode="json")
    generation = put_generation(lakehouse, JOB, declaration=declaration, parameters=dict(RIDE_SUMMARIES.parameters))
    put_done(generation, 0, events=100, rows={JOB: 1, f"late.{JOB}": 50}, watermark=now)
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [dg.AssetSpec(JOB), health_checks.health_checks(RIDE_SUMMARIES)],
            instance=instance,
            resources={"keyfold": Keyfold(lakehouse, Runners("local"))},
            selection=dg.AssetSelection.checks_for_assets(JOB),
        )
    found = {check.check_name: check for check in result.get_asset_check_evaluations()}
    assert {name for name, check in found.items() if not check.passed} == {"few_events_are_late"}
    assert {check.severity for check in found.values()} == {dg.AssetCheckSeverity.WARN}
