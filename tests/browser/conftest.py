"""A headless browser, and Dagster's pages for it to look at."""

import os
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.served_pages import SCRIPTS, Pages, served_pages

PATIENCE = 60_000
"""Milliseconds that anything may take to be seen, on a machine that is busy."""

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="module")
def chromium() -> str:
    found = subprocess.run([str(SCRIPTS / "browser"), "find"], capture_output=True, text=True, check=False)
    if found.returncode:
        reason = "no Chromium or Chrome that runs: `scripts/browser` installs one, or says what is missing"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found.stdout.strip()


@pytest.fixture(scope="module")
def pages(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with served_pages(tmp_path_factory.mktemp("pages")) as pages:
        yield pages


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        # No sandbox: in a container, and as root, Chromium has none to be in.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report
