"""`python -m tests.browser.screenshots`: take the pictures of Dagster's pages in docs/images, after a demo in a folder of its own."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, expect, sync_playwright

from tests.served_dagster import ServedDagster, served_dagster

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"

PICTURES = {
    "asset-graph": ("locations/keyfold/asset-groups/rides", "ride_summaries"),
    "asset-page": ("assets/ride_summaries?view=checks&checkDetail=no_event_is_lost", "no_event_is_lost"),
    "asset-metadata": ("assets/ride_summaries?view=events", "events_in"),
    "automation": ("automation", "rides_schedule"),
}
"""The address of each picture's page, and a text that is there when it has loaded."""

_SECONDS_TO_DRAW = 4
"""Dagster draws graphs and numbers a while after the text is there."""


def main() -> None:
    """Run the demo, and take a picture of each page."""
    browser = subprocess.run([str(ROOT / "scripts" / "browser"), "find"], capture_output=True, text=True, check=True)
    with TemporaryDirectory() as folder, served_dagster(Path(folder), ROOT) as pages:
        demo = [sys.executable, "-m", "dagster_project.demo.run"]
        subprocess.run(demo, env=pages.environment | {"KEYFOLD_RUNNER": "local"}, cwd=ROOT, check=True)
        with sync_playwright() as playwright:
            arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
            chromium = playwright.chromium.launch(executable_path=browser.stdout.strip(), args=arguments)
            window = chromium.new_context(viewport={"width": 1400, "height": 900})
            page = window.new_page()
            page.goto(pages.link)
            for name, (address, text) in PICTURES.items():
                take(page, pages, address, text, IMAGES / f"{name}.png")
            chromium.close()


def take(page: Page, pages: ServedDagster, address: str, text: str, picture: Path) -> None:
    """Open a page, wait until a text is on it, and take its picture."""
    page.goto(f"{pages.url}/{address}")
    expect(page.get_by_text(text).first).to_be_visible(timeout=60_000)
    page.wait_for_timeout(_SECONDS_TO_DRAW * 1000)
    page.screenshot(path=picture)


if __name__ == "__main__":
    main()
