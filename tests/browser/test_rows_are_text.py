"""Rows are data: what would be markup, or fetch something, is text on every page, and nobody is asked for anything."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, expect

from keyfold.dagster.quality.pages import ResultPages
from tests.browser.served_pages import Pages
from tests.keyfold.dagster.quality.test_pages import WORDS, validation

pytestmark = pytest.mark.long

A_RUN = 900
"""Seconds that a run may take on a machine that is busy."""


@dataclass
class Beacon:
    """A server that hears who asks it.

    Attributes:
        url: its address.
        asked: the paths that somebody asked for.
    """

    url: str
    asked: list[str]

    def markup(self, place: str) -> list[str]:
        """Values that would ask it, each in a way of its own, if they were taken for markup."""
        return [
            f"![x]({self.url}/{place}-markdown.png)",
            f"<img src={self.url}/{place}-html.png onerror=alert(1)>",
            f"<script src={self.url}/{place}.js></script>",
        ]


@pytest.fixture(scope="module")
def beacon() -> Iterator[Beacon]:
    asked: list[str] = []

    class Hear(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hear) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Beacon(f"http://127.0.0.1:{server.server_port}", asked)
        server.shutdown()


@pytest.fixture
def quiet(beacon: Beacon, page: Page) -> Iterator[None]:
    """Nobody asks the beacon, and no dialog opens, while the test looks at pages."""
    dialogs: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    beacon.asked.clear()
    yield
    # Whatever is still to be fetched has been by then.
    page.wait_for_timeout(2_000)
    assert (beacon.asked, dialogs) == ([], [])


@pytest.fixture(scope="module")
def rides(pages: Pages, beacon: Beacon) -> list[str]:
    """Rides whose ids are markup, of a negative fare each, have been ingested, summed up and checked; gives the ids."""
    landing = pages.lakehouse.landing("ride_points")
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
            *("--select", "ride_points_events,ride_points_quarantine,ride_summaries,long_rides,ride_summaries_late"),
            *("--config-json", json.dumps({"ops": {"ingest_ride_points": {"config": {"settle_seconds": 0.0}}}})),
        ],
        env=dict(pages.environment),
        capture_output=True,
        text=True,
        timeout=A_RUN,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4_000:]
    return ids


@pytest.mark.browser
def test_a_beacon_is_heard_by_markup_on_a_page_of_another_server(beacon: Beacon, page: Page):
    content = "".join(beacon.markup("control")).encode()

    class Evil(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    beacon.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Evil) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}")
        page.wait_for_timeout(2_000)
        server.shutdown()
    assert sorted(beacon.asked) == ["/control-html.png", "/control.js"]


@pytest.mark.usefixtures("quiet")
def test_values_are_text_on_a_result_page(beacon: Beacon, page: Page, tmp_path: Path):
    values = [*beacon.markup("page"), f"[link]({beacon.url}/link)", "**bold** &lt;b&gt;"]
    # What a page allows itself, whatever its server says.
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = ResultPages(tmp_path, f"http://127.0.0.1:{server.server_port}").add(
            validation(values, expectations=WORDS), run="1"
        )
        page.goto(address)
        for value in values:
            expect(page.get_by_text(value).first).to_be_visible()
        assert page.locator("img, script, a, iframe").count() == 0
        server.shutdown()


@pytest.mark.browser
@pytest.mark.usefixtures("quiet")
def test_rows_are_text_in_the_previews_of_tables(pages: Pages, rides: list[str], page: Page):
    page.goto(f"{pages.url}/assets/ride_summaries")
    for ride in rides:
        expect(page.get_by_text(ride[:40]).first).to_be_visible()
    page.goto(f"{pages.url}/assets/ride_points_quarantine")
    expect(page.get_by_text("point_idx is not an integer of 32 bits").first).to_be_visible()
    page.goto(f"{pages.url}/assets/ride_points_events?view=events")
    expect(page.get_by_text(rides[0][:40]).first).to_be_visible()


@pytest.mark.browser
@pytest.mark.usefixtures("quiet")
def test_rows_and_names_are_text_on_the_pages_of_checks(pages: Pages, rides: list[str], page: Page):
    page.goto(f"{pages.url}/assets/ride_summaries?view=checks")
    page.get_by_text("fare_is_not_negative").first.click()
    for ride in rides:
        expect(page.get_by_text(ride).first).to_be_visible()
    page.goto(f"{pages.url}/assets/ride_points_events?view=checks&checkDetail=landing_files_have_the_stream_s_columns")
    expect(page.get_by_text("column-markdown.png").first).to_be_visible()


@pytest.mark.browser
@pytest.mark.usefixtures("quiet", "rides")
def test_the_link_of_a_check_opens_its_result_page(pages: Pages, page: Page):
    page.goto(f"{pages.url}/assets/ride_summaries?view=checks")
    page.get_by_text("fare_is_not_negative").first.click()
    link = page.locator(f"a[href^='{pages.environment['KEYFOLD_DATA_DOCS_URL']}/']").first
    with page.expect_popup() as opened:
        link.click()
    result = opened.value
    expect(result.get_by_text("Meters run forward.")).to_be_visible()
    expect(result.get_by_text("-1.0", exact=True).first).to_be_visible()
    expect(result.get_by_text("Failed", exact=False).first).to_be_visible()
