"""What a page of another site can do to Dagster's web server by the browser of somebody who has logged in: nothing.

The same page attacks Dagster's web server without the gate too, where it changes things and listens.
"""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from dagster import DagsterInstance
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.conftest import PATIENCE
from tests.browser.other_sites import serving

pytestmark = [pytest.mark.long, pytest.mark.browser]

ATTEMPTS = ("image", "form", "typed_form", "fetch", "json", "frame", "websocket", "navigation")
WITHOUT_THE_GATE = {"image", "form", "typed_form", "fetch"}
"""Of them those that change something without it: browsers ask before a POST of JSON (CORS), a page is shown GraphiQL."""

ATTACK = """<!doctype html><title>evil</title><body><script>
const at = "TARGET/graphql";
const change = name => `mutation { setConcurrencyLimit(concurrencyKey: "${name}", limit: 1) }`;
const address = name => `${at}?query=${encodeURIComponent(change(name))}`;
const done = [];
new Image().src = address("image");
for (const [name, type] of [["form", "application/x-www-form-urlencoded"], ["typed_form", "text/plain"]]) {
  const frame = document.body.appendChild(Object.assign(document.createElement("iframe"), {name}));
  const form = document.body.appendChild(
    Object.assign(document.createElement("form"), {method: "post", action: address(name), enctype: type, target: name}));
  form.submit();
  done.push(new Promise(resolve => frame.onload = resolve));
}
const frame = document.body.appendChild(Object.assign(document.createElement("iframe"), {src: address("frame")}));
done.push(new Promise(resolve => frame.onload = resolve));
const all = {method: "POST", mode: "no-cors", credentials: "include"};
done.push(fetch(address("fetch"), {...all, headers: {"Content-Type": "text/plain"}, body: "{}"}).catch(() => 0));
const body = JSON.stringify({query: change("json")});
done.push(fetch(at, {...all, mode: "cors", headers: {"Content-Type": "application/json"}, body}).catch(() => 0));
done.push(new Promise(resolve => {
  const listening = new WebSocket(at.replace("http", "ws"), "graphql-ws");
  listening.onopen = () => { window.listens = true; resolve(); };
  listening.onerror = resolve;
}));
Promise.all(done).then(() => window.tried = true);
</script>"""


@dataclass(frozen=True)
class Served:
    """A web server of Dagster.

    Attributes:
        url: of it.
        link: that opens it.
        home: its DAGSTER_HOME.
    """

    url: str
    link: str
    home: Path

    def changes(self) -> set[str]:
        """The attempts that changed something."""
        with DagsterInstance.from_config(str(self.home)) as instance:
            return instance.event_log_storage.get_concurrency_keys() & set(ATTEMPTS)


@contextmanager
def served(folder: Path, *command: str) -> Iterator[Served]:
    home, told = folder / "dagster", folder / "told.txt"
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    (folder / "workspace.yaml").write_text("load_from: []\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with told.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", *command, "--port", str(port), "--workspace", str(folder / "workspace.yaml")],
            env={**os.environ, "DAGSTER_HOME": str(home)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        with httpx.Client(trust_env=False, timeout=10) as client:
            for _ in range(120):
                assert server.poll() is None, told.read_text()
                with suppress(httpx.TransportError):
                    client.get(url)
                    break
                with suppress(subprocess.TimeoutExpired):
                    server.wait(timeout=1)
        found = re.findall(rf"{url}/\S+", told.read_text())
        yield Served(url, found[0] if found else url, home)
    finally:
        server.terminate()
        server.wait(timeout=60)


@pytest.fixture(scope="module")
def guarded(chromium, tmp_path_factory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("guarded"), "keyfold.dagster.serving.web_server") as server:
        yield server


@pytest.fixture(scope="module")
def open_to_all(chromium, tmp_path_factory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("open"), "dagster_webserver", "--host", "127.0.0.1") as server:
        yield server


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """One that takes a name of the attacker's for this machine."""
    expect.set_options(timeout=PATIENCE)
    rebound = "--host-resolver-rules=MAP *.example 127.0.0.1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", rebound]
        )
        yield browser
        browser.close()


def evil_page(target: str) -> AbstractContextManager[tuple[int, list[str]]]:
    """A page that attacks a server, at a port of this machine."""
    return serving(200, ATTACK.replace("TARGET", target).encode())


def attack(page: Page, server: Served, host: str) -> bool:
    """Have a page at a host try everything; whether it could listen."""
    change = 'mutation { setConcurrencyLimit(concurrencyKey: "navigation", limit: 1) }'
    with evil_page(server.url) as (port, _):
        page.goto(f"http://{host}:{port}/")
        page.wait_for_function("window.tried")
        listens = page.evaluate("window.listens === true")
        page.evaluate(
            "address => { location = address }", f"{server.url}/graphql?{httpx.QueryParams({'query': change})}"
        )
        page.wait_for_url(f"{server.url}/graphql?*")
        page.wait_for_load_state()
    return listens


def test_without_the_gate_a_foreign_page_changes_things_and_listens(page: Page, open_to_all: Served):
    assert attack(page, open_to_all, "evil.example")
    assert open_to_all.changes() == WITHOUT_THE_GATE


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost"])
def test_a_foreign_page_in_a_browser_that_is_logged_in_changes_nothing_and_hears_nothing(
    page: Page, guarded: Served, host: str
):
    page.goto(guarded.link)
    assert not attack(page, guarded, host)
    assert guarded.changes() == set()


def test_a_name_that_is_made_to_lead_to_this_machine_is_refused(page: Page, guarded: Served):
    page.goto(guarded.link)
    foreign = guarded.url.replace("127.0.0.1", "rebound.example")
    answer = page.goto(f"{foreign}/")
    assert answer is not None
    assert answer.status == 403
    # The page's own call, which no rule on origins stops; and with the token it would be refused too.
    body = json.dumps({"query": "{ version }"})
    called = page.evaluate(
        "([body]) => fetch('/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'}, body})"
        ".then(answer => answer.status)",
        [body],
    )
    assert called == 403
    with httpx.Client(trust_env=False) as client:
        assert client.get(guarded.link.replace("/?", "/runs?"), headers={"Host": "rebound.example"}).status_code == 403


def test_a_link_from_elsewhere_asks_for_one_click_more(page: Page, guarded: Served):
    page.goto(guarded.link)
    expect(page.get_by_role("link", name="Runs").first).to_be_visible()
    with evil_page(guarded.url) as (port, _):
        page.goto(f"http://evil.example:{port}/")
        page.evaluate("address => { location = address }", f"{guarded.url}/runs")
        # Strict cookies do not come along with another site's link.
        page.get_by_role("link", name="continue").click()
    expect(page.get_by_role("link", name="Runs").first).to_be_visible()
