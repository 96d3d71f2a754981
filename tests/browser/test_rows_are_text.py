"""Rows are data: what would be markup, or fetch something, is text on every page, and nobody is asked for anything."""

import json
import subprocess
import sys

import pytest
from playwright.sync_api import Page, expect

from keyfold.lakehouse import Lakehouse
from tests.browser.other_sites import Beacon, serving
from tests.served_dagster import ServedDagster

pytestmark = [pytest.mark.long, pytest.mark.browser]

A_RUN = 900
"""Seconds that a run may take on a machine that is busy."""


@pytest.fixture(scope="module")
def rides(pages: ServedDagster, beacon: Beacon) -> list[str]:
    """Rides whose ids are markup, of a negative fare each, have been ingested, summed up and checked; gives the ids."""
    landing = Lakehouse(pages.environment["KEYFOLD_HOME"]).landing("ride_points")
    landing.mkdir(parents=True)
    ids = beacon.markup("row")
    points = [
        {
            "ride_id": ride,
            "point_idx": index,
            "latitude": 40.73,
            "longitude": -73.97,
            "timestamp": f"2026-01-01T00:0{index}:00Z",
            "meter_reading": -1.0,
            "ride_status": status,
            beacon.markup("column")[0]: 1,
        }
        for ride in ids
        for index, status in enumerate(("pickup", "dropoff"))
    ]
    bad = [json.dumps({"ride_id": markup, "point_idx": markup}) for markup in beacon.markup("quarantine")]
    lines = [*map(json.dumps, points), *bad]
    (landing / "![x](b.png).ndjson").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    # Not by the pages, whose launchpad has a test of its own.
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "dagster", "asset", "materialize", "-m", "dagster_project.definitions"),
            *("--select", "ride_points_events,ride_summaries,long_rides"),
            *("--config-json", json.dumps({"ops": {"ingest_ride_points": {"config": {"settle_seconds": 0.0}}}})),
        ],
        env=pages.environment,
        capture_output=True,
        text=True,
        timeout=A_RUN,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    return ids


def test_a_beacon_is_heard_by_markup_on_a_page_of_another_server(beacon: Beacon, page: Page):
    beacon.asked.clear()
    with serving(200, "".join(beacon.markup("control")).encode()) as (port, _):
        page.goto(f"http://127.0.0.1:{port}")
        page.wait_for_timeout(2_000)
    assert sorted(beacon.asked) == ["/control-html.png", "/control.js"]


@pytest.mark.usefixtures("quiet")
def test_rows_are_text_in_the_previews_of_tables(pages: ServedDagster, rides: list[str], page: Page):
    page.goto(f"{pages.url}/assets/ride_summaries")
    for ride in rides:
        expect(page.get_by_text(ride[:19]).first).to_be_visible()
    page.goto(f"{pages.url}/assets/ride_points_events?view=checks&checkDetail=few_rows_are_quarantined")
    expect(page.get_by_text("point_idx is not an integer of 32 bits").first).to_be_visible()
    page.goto(f"{pages.url}/assets/ride_points_events?view=events")
    expect(page.get_by_text(rides[0][:19]).first).to_be_visible()


@pytest.mark.usefixtures("quiet")
def test_rows_and_names_are_text_on_the_pages_of_checks(pages: ServedDagster, rides: list[str], page: Page):
    page.goto(f"{pages.url}/assets/ride_summaries?view=checks")
    page.get_by_text("fare_is_not_negative").first.click()
    for ride in rides:
        expect(page.get_by_text(ride).first).to_be_visible()
    page.goto(f"{pages.url}/assets/ride_points_events?view=checks&checkDetail=landing_files_have_the_stream_s_columns")
    expect(page.get_by_text("column-markdown.png").first).to_be_visible()


@pytest.mark.usefixtures("quiet", "rides")
def test_the_link_of_a_check_opens_its_result_page(pages: ServedDagster, page: Page):
    page.goto(f"{pages.url}/assets/ride_summaries?view=checks")
    page.get_by_text("fare_is_not_negative").first.click()
    link = page.locator(f"a[href^='{pages.url}/data_docs/']").first
    with page.expect_popup() as opened:
        link.click()
    result = opened.value
    expect(result.get_by_text("Fares are not negative.")).to_be_visible()
    expect(result.get_by_text("-1.0", exact=True).first).to_be_visible()
    expect(result.get_by_text("Failed", exact=False).first).to_be_visible()
