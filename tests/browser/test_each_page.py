"""Each kind of page opens and shows what it is of. `make browser-tests` works on the pages; `make test` looks at them here."""

import re
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from keyfold.dagster.quality.pages import ResultPages
from tests.browser.other_sites import Beacon
from tests.keyfold.dagster.quality.fare_pages import WORDS, add
from tests.served_dagster import ServedDagster

pytestmark = pytest.mark.long

TABLES = ("ride_points_events", "ride_summaries", "long_rides")

SHOWN = {
    "assets/ride_summaries": "long_rides",
    "assets/ride_summaries?view=checks": "no_event_is_lost",
    "locations/keyfold/schedules/rides_schedule": "Execution timezone",
    "locations/keyfold/sensors/ride_points_landed": "Preview tick result",
    "runs": "No runs found",
}
"""Addresses of pages, and a text on each."""


def test_the_link_opens_the_pages_with_their_websocket_and_nothing_else_does(pages: ServedDagster, browser: Browser):
    with browser.new_context() as window:
        page = window.new_page()
        refused = page.goto(pages.url)
        assert refused is not None
        assert refused.status == 401
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        # From the start: the frame comes while the page loads.
        frames: list[tuple[str, str]] = []
        page.on("websocket", lambda one: one.on("framereceived", lambda frame: frames.append((one.url, str(frame)))))
        page.goto(pages.link)
        address, end = f"{pages.url.replace('http', 'ws')}/graphql", time.monotonic() + 60
        while not any(url == address and "connection_ack" in frame for url, frame in frames):
            assert time.monotonic() < end, frames
            page.wait_for_timeout(100)
        assert "token" not in page.url
        expect(page.get_by_role("link", name="Runs").first).to_be_visible()
        assert page.goto(f"{pages.url}/runs").status == 200  # type: ignore[union-attr]


def test_the_graph_of_a_group_shows_its_assets_by_name(pages: ServedDagster, page: Page):
    page.goto(f"{pages.url}/asset-groups")
    expect(page.get_by_text("rides", exact=True).first).to_be_visible()
    page.goto(f"{pages.url}/locations/keyfold/asset-groups/rides")
    for name in ("ride_points_landing", *TABLES, "event_index"):
        expect(page.get_by_text(name, exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile(r"^0 / \d+ Passed$")).first).to_be_visible()


@pytest.mark.parametrize(("address", "text"), SHOWN.items())
def test_each_kind_of_page_shows_what_it_is_of(pages: ServedDagster, page: Page, address: str, text: str):
    page.goto(f"{pages.url}/{address}")
    expect(page.get_by_text(text, exact=True).first).to_be_visible()


@pytest.mark.usefixtures("quiet")
def test_values_are_text_on_a_result_page(beacon: Beacon, page: Page, tmp_path: Path):
    values = [*beacon.markup("page"), f"[link]({beacon.url}/link)", "**bold** &lt;b&gt;"]
    # What a page allows itself, whatever its server says.
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pages = ResultPages(tmp_path, f"http://127.0.0.1:{server.server_port}")
        address = add(pages, values, WORDS)
        page.goto(address)
        for value in values:
            expect(page.get_by_text(value).first).to_be_visible()
        assert page.locator("img, script, a, iframe").count() == 0
        server.shutdown()
