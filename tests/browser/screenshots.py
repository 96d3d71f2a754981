"""`python -m tests.browser.screenshots`: take the pictures of Dagster's pages in docs/images, after a demo in a folder of its own."""

import re
import shlex
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, expect, sync_playwright

from tests.served_dagster import ServedDagster, served_dagster
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"

COMMANDS = (
    "keyfold show ride_summaries --columns ride_id,start_time,reason,n_points,fare --limit 4",
    "keyfold health ride_summaries ride_points",
    "keyfold plan ride_summaries --param timeout=1h",
)
"""What the picture of the command line shows, with its output."""

PICTURES = {
    "asset-graph": ("locations/keyfold/asset-groups/rides", "ride_summaries"),
    "asset-page": ("assets/ride_summaries?view=checks&checkDetail=no_event_is_lost", "no_event_is_lost"),
    "asset-metadata": ("assets/ride_summaries?view=events", "events_in"),
    "automation": ("automation", "rides_schedule"),
}
"""The address of each picture's page, and a text that is there when it has loaded."""

_RUNS = "{ runsOrError { ... on Runs { results { status } } } }"
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
            check_again(page, pages)
            for name, (address, text) in PICTURES.items():
                take(page, pages, address, text, IMAGES / f"{name}.png")
            take_plots(page, pages)
            take_commands(page, pages)
            chromium.close()


def take(page: Page, pages: ServedDagster, address: str, text: str, picture: Path) -> None:
    """Open a page, wait until a text is on it, and take its picture."""
    page.goto(f"{pages.url}/{address}")
    expect(page.get_by_text(text).first).to_be_visible(timeout=60_000)
    page.wait_for_timeout(_SECONDS_TO_DRAW * 1000)
    page.screenshot(path=picture)


def check_again(page: Page, pages: ServedDagster) -> None:
    """Run a check by its button: what the demo's late delivery has changed since Dagster's run is accounted for too."""
    page.goto(f"{pages.url}/{PICTURES['asset-page'][0]}")
    page.get_by_text("Execute", exact=True).first.click(timeout=60_000)
    # The demo's two runs, and this one.
    wait_until(lambda: pages.ask(_RUNS)["runsOrError"]["results"] == [{"status": "SUCCESS"}] * 3)


def take_plots(page: Page, pages: ServedDagster) -> None:
    """Take the picture of a job's plots, which a page of Dagster shows when they are asked for."""
    page.goto(f"{pages.url}/assets/ride_summaries?view=events")
    page.get_by_text("[Show Markdown]").first.click()
    page.wait_for_timeout(_SECONDS_TO_DRAW * 1000)
    dialog = page.get_by_role("dialog").bounding_box()
    assert dialog is not None
    # The last plot is a map, which is as high as the others together.
    page.screenshot(path=IMAGES / "plots.png", clip={**dialog, "height": 545})


def take_commands(page: Page, pages: ServedDagster) -> None:
    """Take the picture of the command line."""
    shown = "\n\n".join(f"$ {command}\n{_output(command, pages)}" for command in COMMANDS)
    style = "font: 13px monospace; margin: 0; padding: 16px; display: inline-block; background: #16181d; color: #e6e6e6"
    page.set_content(f'<pre style="{style}">{escape(shown)}</pre>')
    page.locator("pre").screenshot(path=IMAGES / "command-line.png")


def _output(command: str, pages: ServedDagster) -> str:
    words = [str(Path(sys.executable).with_name("keyfold")), *shlex.split(command)[1:]]
    environment = pages.environment | {"COLUMNS": "110"}
    ran = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    # The folder of the demo is none of a reader's.
    return re.sub(rf" --home {re.escape(pages.environment['KEYFOLD_HOME'])}", "", ran.stdout.rstrip())


if __name__ == "__main__":
    main()
