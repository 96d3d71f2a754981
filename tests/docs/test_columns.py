"""The pages' tables of columns are those of the declarations."""

import re
from pathlib import Path
from runpy import run_path

import pytest

from spark_jobs.jobs.registry import SHIPPED as SHIPPED_JOBS
from spark_jobs.streams import SHIPPED as SHIPPED_STREAMS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SCRIPT = run_path(str(ROOT / "scripts" / "docs_columns.py"))
fill = SCRIPT["fill"]

BLOCK = "Before.\n<!-- columns of {} -->\n\n| stale |\n\n<!-- end of columns -->\nAfter.\n"


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_no_page_is_stale(page):
    text = page.read_text(encoding="utf-8")
    assert fill(text) == text, "make docs writes the tables anew"


def test_every_event_table_and_every_job_that_is_shipped_stands_in_the_pages():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert set(re.findall(r"<!-- columns of (.*?) -->", text)) == {f"events.{stream}" for stream in SHIPPED_STREAMS} | {
        "quarantine"
    }
    assert re.findall(r"<!-- job (.*?) -->", text) == list(SHIPPED_JOBS)


def test_a_job_s_section_has_its_docstring_its_tables_and_what_another_value_of_a_parameter_needs():
    filled = fill("<!-- job ride_summaries -->\nstale\n<!-- end of job -->\n")
    assert "stale" not in filled
    assert "\nSummarise rides: one row per ride" in filled
    assert "\nTables: `ride_summaries` (append), `long_rides` (append).\n" in filled
    assert "`latest_moving_averages` (one row per `station_id`)" in fill(
        "<!-- job moving_averages -->\n<!-- end of job -->\n"
    )
    assert "| `timeout` | `30m` | Silence after a ride's last point that closes the ride | a move |" in filled
    assert "By default `delay` `10m`, `idle_timeout` `2h`." in filled
    assert fill(filled) == filled
    with pytest.raises(SystemExit, match="job no_such: there is no such job; there are ride_summaries"):
        fill("<!-- job no_such -->\n<!-- end of job -->")


def test_a_stale_table_is_written_anew_and_all_else_stays():
    filled = fill(BLOCK.format("events.telemetry"))
    assert filled.startswith("Before.\n<!-- columns of events.telemetry -->\n")
    assert filled.endswith("\n<!-- end of columns -->\nAfter.\n")
    assert "stale" not in filled
    assert "| `speed` | double | Speed, km/h | `speed` |" in filled
    assert "| `vehicle_id` | string | Vehicle that sent the point | `vehicle_id`, else `vehicle` |" in filled
    assert "| `fuel_level` | double, or NULL | Fuel in the tank, litres | `fuel_level` |" in filled
    assert fill(filled) == filled


def test_a_table_that_is_not_there_is_refused():
    with pytest.raises(SystemExit, match=r"columns of no_such: there is no such table; there are .*events.sales"):
        fill(BLOCK.format("no_such"))
