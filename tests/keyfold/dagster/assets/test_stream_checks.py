"""Checks of streams: what they find, where it is shown, and how severe it is."""

import gzip
import json
from datetime import timedelta

import dagster as dg
import pytest

from keyfold.dagster.assets.checks import Finding
from keyfold.dagster.assets.shown import StreamAssets
from keyfold.dagster.assets.stream_checks import find_quarantined, find_unknown_columns
from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs import ingest
from spark_jobs.streams import METRICS, SALES, WEATHER

SHOWN = StreamAssets(WEATHER)


def readings(station: str, count: int, time: str = "2026-01-01T{:02}:{:02}:00Z") -> bytes:
    rows = ({"station_id": station, "time": time.format(at // 60, at % 60), "temp": 50.0} for at in range(count))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def take_in(lakehouse: Lakehouse, **files: bytes) -> None:
    """Land files of weather, by name without its suffix, and ingest them."""
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (landing / f"{name}.ndjson").write_bytes(content)
    ingest(lakehouse, WEATHER, landing, settle=timedelta(0), runners=Runners("local"))


def test_without_files_or_rows_there_is_nothing_to_find(lakehouse):
    assert find_quarantined(lakehouse, SHOWN) == Finding(True, "no rows in the last batches")
    lakehouse.landing("weather").mkdir(parents=True)
    assert find_unknown_columns(WEATHER, lakehouse.landing("weather")) == Finding(
        True, "no files in the landing folder"
    )


def test_many_quarantined_rows_are_a_warning_with_reasons_and_where_to_see_them(lakehouse):
    take_in(lakehouse, a=readings("a", 20))
    assert find_quarantined(lakehouse, SHOWN) == Finding(True, "0 of 20 rows of the last 1 batches were quarantined")
    take_in(lakehouse, b=readings("b", 20) + b"{}\n" * 3)
    finding = find_quarantined(lakehouse, SHOWN)
    assert (finding.passed, finding.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert finding.description.startswith("3 of 43 rows of the last 2 batches were quarantined, most often for: ")
    assert "See `keyfold show quarantine.weather`" in finding.description
    assert finding.metadata["quarantine"].value == "keyfold show quarantine.weather"
    assert [row.data["rows"] for row in finding.metadata["reasons"].records] == ["3"]
    assert [row.data["file"] for row in finding.metadata["preview"].records] == ["b.ndjson"] * 3


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        (
            "changed.ndjson",
            readings("b", 30, "01.02.2026 {:02}h{:02}"),
            "changed.ndjson is bad as a whole; 30 of 1,030 ",
        ),
        ("broken.ndjson.gz", gzip.compress(readings("b", 30))[:-20], "broken.ndjson.gz is unreadable; "),
        ("few.ndjson", readings("b", 30) + b"{}\n", None),
    ],
)
def test_a_file_that_is_bad_as_a_whole_is_an_error_however_many_good_rows_there_are(lakehouse, name, content, fault):
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True)
    (landing / "good.ndjson").write_bytes(readings("a", 1_000))
    (landing / name).write_bytes(content)
    ingest(lakehouse, WEATHER, landing, settle=timedelta(0), runners=Runners("local"))
    finding = find_quarantined(lakehouse, SHOWN)
    assert finding.passed is (fault is None)
    if fault is not None:
        assert finding.severity is dg.AssetCheckSeverity.ERROR
        assert finding.description.startswith(fault)
        assert "most often for: " in finding.description


def test_the_newest_of_several_bad_files_leads_the_message(lakehouse):
    take_in(lakehouse, z_first=readings("a", 30, "01.02.2026 {:02}h{:02}"))
    take_in(lakehouse, a_second=readings("a", 30, "01.02.2026 {:02}h{:02}"))
    start = "a_second.ndjson is bad as a whole; z_first.ndjson is bad as a whole; 60 of 60 rows "
    assert find_quarantined(lakehouse, SHOWN).description.startswith(start)


def test_a_bad_newest_batch_is_found_after_many_good_ones(lakehouse):
    take_in(lakehouse, a=readings("a", 1_000))
    take_in(lakehouse, b=readings("b", 50) + b"{}\n" * 9)
    finding = find_quarantined(lakehouse, SHOWN)
    assert not finding.passed
    assert finding.description.startswith("9 of 1,059 rows of the last 2 batches were quarantined, most often for: ")


@pytest.mark.parametrize(("bad", "passed"), [(1, True), (2, True), (3, False)])
def test_a_stream_sets_the_share_above_which_the_check_fails(lakehouse, bad, passed):
    take_in(lakehouse, a=readings("a", 10 - bad) + b"{}\n" * bad)
    assert find_quarantined(lakehouse, StreamAssets(WEATHER, most_quarantined=0.2)).passed is passed


@pytest.mark.parametrize("severity", dg.AssetCheckSeverity)
def test_a_stream_sets_the_severity_of_both_faults(lakehouse, severity):
    shown = StreamAssets(WEATHER, severity=severity)
    take_in(lakehouse, a=readings("a", 9) + b"{}\n" * 9)
    assert find_quarantined(lakehouse, shown).severity is severity
    take_in(lakehouse, b=readings("a", 30, "01.02.2026 {:02}h{:02}"))
    assert find_quarantined(lakehouse, shown).severity is severity


def test_a_share_that_is_none_is_refused_where_it_is_declared():
    with pytest.raises(KeyfoldError, match=r"weather: most_quarantined is 5: give a share from 0 to 1"):
        StreamAssets(WEATHER, most_quarantined=5)


def test_files_with_other_columns_are_named_with_the_columns(lakehouse):
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True)
    good = landing / "good.csv.gz"
    good.write_bytes(gzip.compress(b"origin,year,temp,time_hour\nEWR,2013,39,2013-01-01T06:00:00Z\n"))
    assert find_unknown_columns(WEATHER, landing).passed
    (landing / "new.csv").write_text("origin,temp_celsius,when\nEWR,4,2013-01-01T06:00:00Z\n")
    (landing / "unreadable.csv.gz").write_bytes(b"no gzip")
    finding = find_unknown_columns(WEATHER, landing)
    passed, text = finding.passed, finding.description
    assert not passed
    assert text == "new.csv has temp_celsius, when, unknown to weather"


def test_names_in_files_are_told_without_marks_that_a_page_would_take_for_markup(lakehouse):
    landing = lakehouse.landing("metrics")
    landing.mkdir(parents=True)
    (landing / "![x](\\\\evil.example\\b.png).csv").write_text("timestamp,value,![x](http://evil.example/b.png)\n")
    text = find_unknown_columns(METRICS, landing).description
    assert "evil.example" in text
    assert not set(text) & set("![]<>/\\`*#|")


def test_reasons_of_our_own_are_told_as_they_are(lakehouse):
    landing = lakehouse.landing("weather")
    landing.mkdir(parents=True)
    (landing / "a.csv").write_text("station_id,time,temp\nEWR,2026-01-01T00:00:00Z,1,2\n,,\n")
    (landing / "b.other").write_text("x\n")
    ingest(lakehouse, WEATHER, landing, settle=timedelta(0), runners=Runners("local"))
    finding = find_quarantined(lakehouse, SHOWN)
    passed, text = finding.passed, finding.description
    assert not passed
    assert "the row has 4 fields, the header 3 (1)" in text
    assert "(.ndjson, .jsonl, .json and .csv, also with .gz, and .parquet) (1)" in text
    assert "\N{REPLACEMENT CHARACTER}" not in text


def test_of_a_stream_with_private_columns_unknown_ones_are_counted_and_not_named(lakehouse):
    landing = lakehouse.landing("sales")
    landing.mkdir(parents=True)
    (landing / "no_header.csv").write_text("tea,Ada Lovelace,2026-01-01T00:00:00Z,1\n")
    finding = find_unknown_columns(SALES, landing)
    passed, text = finding.passed, finding.description
    assert not passed
    assert "has 4 columns, unknown to sales" in text
    assert "Ada" not in text
