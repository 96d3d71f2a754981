"""The pages' tables of columns are those of the declarations."""

import re
from pathlib import Path
from runpy import run_path

import pytest

from keyfold.keyed.job.building import build_job
from spark_jobs.jobs.registry import JOBS
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


def test_every_event_table_and_every_table_of_a_job_that_is_shipped_stands_in_the_pages():
    told = {
        name.strip()
        for page in PAGES
        for names in re.findall(r"<!-- columns of (.*?) -->", page.read_text(encoding="utf-8"))
        for name in names.split(",")
    }
    jobs = [build_job(JOBS[name]) for name in SHIPPED_JOBS]
    # Late tables have the columns of the stream, which stand with it.
    tables = {table.name for job in jobs for table in job.tables if table.name != job.late_table}
    assert tables | {f"events.{stream}" for stream in SHIPPED_STREAMS} <= told


def test_a_stale_table_is_written_anew_and_all_else_stays():
    filled = fill(BLOCK.format("events.telemetry"))
    assert filled.startswith("Before.\n<!-- columns of events.telemetry -->\n")
    assert filled.endswith("\n<!-- end of columns -->\nAfter.\n")
    assert "stale" not in filled
    assert "| `speed` | double | Speed, km/h | `speed` |" in filled
    assert "| `vehicle_id` | string | Vehicle that sent the point | `vehicle_id`, else `vehicle` |" in filled
    assert "| `fuel_level` | double, or NULL | Fuel in the tank, litres | `fuel_level` |" in filled
    assert fill(filled) == filled


def test_a_table_that_is_not_there_and_tables_that_differ_are_refused():
    with pytest.raises(SystemExit, match=r"columns of no_such: there is no such table; there are .*ride_summaries"):
        fill(BLOCK.format("no_such"))
    with pytest.raises(SystemExit, match="vehicle_stops has other columns than vehicle_trips"):
        fill(BLOCK.format("vehicle_trips, vehicle_stops"))
