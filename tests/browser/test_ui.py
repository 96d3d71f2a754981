"""One story in Dagster's own pages, by clicks alone, its chapters in order: rides land, are materialized and looked at."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from playwright.sync_api import Page, expect

from expectations.ride_summaries import EXPECTATIONS
from keyfold.lakehouse import Lakehouse
from spark_jobs.simulation import simulate
from tests.served_dagster import ServedDagster

pytestmark = [pytest.mark.long, pytest.mark.browser]

A_RUN = 600_000
"""Milliseconds that a run may take; on a quiet machine half a minute to a minute and a half."""


@pytest.fixture(scope="module")
def rides(pages: ServedDagster) -> Path:
    """The landing folder, with files in it."""
    landing = Path(str(Lakehouse(pages.environment["KEYFOLD_HOME"]).landing("ride_points")))
    simulate("ride_points", landing, size=20, files=4)
    return landing


def test_assets_are_materialized_from_the_launchpad(pages: ServedDagster, rides: Path, page: Page):
    page.goto(f"{pages.url}/locations/keyfold/asset-groups/rides")
    expect(page.get_by_text("ride_points_quarantine", exact=True)).to_be_visible()
    page.locator(".CodeMirror").click()
    page.keyboard.type('key:"ride_points_events" or key:"ride_summaries"')
    page.keyboard.press("Enter")
    expect(page.get_by_text("ride_points_quarantine", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Materialize all").locator("xpath=following::button[1]").click()
    page.get_by_role("menuitem", name="Open launchpad").click()
    # The other tables of the two steps.
    page.get_by_role("button", name="Confirm").click()
    launchpad = page.get_by_role("dialog")
    expect(launchpad.get_by_text("No errors")).to_be_visible()
    launchpad.get_by_role("button", name="Materialize").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"))
    ended = page.get_by_text(re.compile("^(Success|Failure)$")).first
    expect(ended).to_be_visible(timeout=A_RUN)
    expect(ended).to_have_text("Success")
    made = DeltaTable(str(Lakehouse(pages.environment["KEYFOLD_HOME"]).table("ride_summaries"))).count()
    page.goto(f"{pages.url}/assets/ride_summaries")
    expect(page.get_by_text("Row count").locator("xpath=..")).to_contain_text(str(made))


def test_the_page_of_an_asset_shows_its_checks_as_passed(pages: ServedDagster, page: Page):
    page.goto(f"{pages.url}/assets/ride_summaries?view=checks")
    expect(page.get_by_text("Succeeded", exact=True).nth(len(EXPECTATIONS))).to_be_visible()
    expect(page.get_by_text("Failed", exact=True)).to_have_count(0)
    page.get_by_text("no_event_is_lost").first.click()
    expect(page.get_by_text("Passed", exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile(r"events read = .* in outputs"))).to_be_visible()


def test_a_check_executed_from_its_page_fails_where_a_row_is_gone(pages: ServedDagster, page: Page):
    with one_row_gone(Path(str(Lakehouse(pages.environment["KEYFOLD_HOME"]).quarantine("ride_points")))):
        page.goto(f"{pages.url}/assets/ride_points_events?view=checks")
        page.get_by_text("every_row_is_accounted_for").first.click()
        expect(page.get_by_text("Passed", exact=True)).to_be_visible()
        page.get_by_role("button", name="Execute").last.click()
        expect(page.get_by_text("Passed", exact=True)).to_be_hidden()
        expect(page.get_by_text("Failed", exact=True).first).to_be_visible(timeout=A_RUN)
        expect(
            page.get_by_text(re.compile(r"rows are in quarantine\.ride_points, but \d+ were counted"))
        ).to_be_visible()


def test_a_plot_in_the_metadata_is_a_picture(pages: ServedDagster, page: Page):
    page.goto(f"{pages.url}/assets/ride_summaries")
    for name in ("durations", "throughput_and_state"):
        entry = page.get_by_role("row").filter(has=page.get_by_text(name, exact=True))
        entry.get_by_text("[Show Markdown]").click()
        plot = page.get_by_role("dialog").filter(has_text=name).locator("img")
        expect(plot).to_have_attribute("src", re.compile("^data:image/png;base64,"))
        expect(plot).to_have_js_property("complete", True)
        assert plot.evaluate("image => image.naturalWidth") > 0
        page.get_by_role("button", name="Close").click()
        expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_file_that_lands_starts_a_run_once_the_sensor_is_on(pages: ServedDagster, rides: Path, page: Page):
    # What was read may go; the sensor is to find the new file and nothing else.
    for read in rides.iterdir():
        read.unlink()
    page.goto(f"{pages.url}/locations/keyfold/sensors/ride_points_landed")
    switch = page.get_by_role("checkbox")
    expect(switch).not_to_be_checked()
    page.locator("label").filter(has=switch).click()
    expect(switch).to_be_checked()
    expect(page.get_by_text("0 runs requested").first).to_be_visible(timeout=120_000)
    drop_a_ride(Lakehouse(pages.environment["KEYFOLD_HOME"]))
    expect(page.get_by_text("1 run requested").first).to_be_visible(timeout=120_000)
    page.get_by_role("button", name="Runs", exact=True).click()
    # The tab lists the sensor's own runs alone.
    expect(page.get_by_text("keyfold/new: 1", exact=True)).to_have_count(1)
    ended = page.get_by_text(re.compile("^(Success|Failure)$"))
    expect(ended).to_be_visible(timeout=A_RUN)
    expect(ended).to_have_text("Success")


@contextmanager
def one_row_gone(table: Path) -> Iterator[None]:
    """A row is gone from a Delta table; afterwards it is there again."""
    delta = DeltaTable(str(table))
    whole = delta.version()
    row = next(row for row in delta.to_pyarrow_table().to_pylist() if row["line"] is not None)
    assert delta.delete(f"file = '{row['file']}' AND line = {row['line']}")["num_deleted_rows"] == 1
    try:
        yield
    finally:
        delta.restore(whole)


def drop_a_ride(lakehouse: Lakehouse) -> None:
    """Land one file, of one ride, whole from the moment that it has its name."""
    now = datetime.now(UTC)
    points = [
        {
            "ride_id": "dropped",
            "point_idx": index,
            "latitude": 40.73 + index / 1_000,
            "longitude": -73.97,
            "timestamp": (now + timedelta(seconds=9 * index)).isoformat(),
            "meter_reading": 1.5 * index,
            "meter_increment": 1.5,
            "ride_status": status,
            "passenger_count": 1,
        }
        for index, status in enumerate(("pickup", "enroute", "dropoff"))
    ]
    landing = Path(str(lakehouse.landing("ride_points")))
    part = landing / ".dropped.ndjson"
    part.write_text("".join(f"{json.dumps(point)}\n" for point in points), encoding="utf-8")
    part.rename(landing / "dropped.ndjson")
