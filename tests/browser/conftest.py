"""A headless browser, and Dagster's pages for it to look at."""

import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright

from tests.browser.other_sites import Beacon, serving
from tests.served_dagster import ServedDagster, served_dagster

ROOT = Path(__file__).parents[2]

PATIENCE = 60_000
"""Milliseconds that anything may take to be seen, on a machine that is busy."""

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="module")
def chromium() -> str:
    found = subprocess.run([str(ROOT / "scripts" / "browser"), "find"], capture_output=True, text=True, check=False)
    if found.returncode:
        reason = "no Chromium or Chrome that runs: `scripts/browser` installs one, or says what is missing"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found.stdout.strip()


@pytest.fixture(scope="module")
def pages(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedDagster]:
    with served_dagster(tmp_path_factory.mktemp("pages"), ROOT) as pages:
        yield pages


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        # No sandbox: in a container, and as root, Chromium has none to be in. And an attacker's names of this machine.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP *.example 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Page]:
    """A window of its own for each test, logged in where there are pages; of a test that fails, a picture of it stays."""
    window = browser.new_context(viewport={"width": 1400, "height": 900})
    window.set_default_timeout(PATIENCE)
    page = window.new_page()
    if "pages" in request.fixturenames:
        page.goto(request.getfixturevalue("pages").link)
    yield page
    if request.node.stash.get(_FAILED, False):
        page.screenshot(path=tmp_path / "page.png")
        print(f"{page.url} as it was: {tmp_path / 'page.png'}")
    window.close()


@pytest.fixture(scope="module")
def beacon() -> Iterator[Beacon]:
    with serving(204) as (port, asked):
        yield Beacon(f"http://127.0.0.1:{port}", asked)


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report
