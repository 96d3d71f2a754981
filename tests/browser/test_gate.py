"""What a page of another site can do to Dagster's web server by the browser of somebody who has logged in: nothing.

The same page attacks Dagster's web server without the gate too, where it changes things and listens.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from dagster import DagsterInstance
from playwright.sync_api import Page, expect

from tests.browser.other_sites import serving
from tests.ports import free_port, listening
from tests.served_dagster import ServedDagster, served_dagster

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


SETTINGS = "telemetry: {enabled: false}\nnux: {enabled: false}\n"


def changes(home: Path) -> set[str]:
    """The attempts that changed something in a DAGSTER_HOME."""
    with DagsterInstance.from_config(str(home)) as instance:
        return instance.event_log_storage.get_concurrency_keys() & set(ATTEMPTS)


@pytest.fixture(scope="module")
def guarded(chromium, tmp_path_factory) -> Iterator[ServedDagster]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "dagster").mkdir()
    (folder / "dagster" / "dagster.yaml").write_text(SETTINGS)
    with served_dagster(folder) as served:
        yield served


@pytest.fixture(scope="module")
def open_to_all(chromium, tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """The address of Dagster's own web server, and its DAGSTER_HOME."""
    home, port = tmp_path_factory.mktemp("open"), free_port()
    (home / "dagster.yaml").write_text(SETTINGS)
    command = [sys.executable, "-m", "dagster_webserver", "--host", "127.0.0.1", "--port", str(port)]
    with listening([*command, "--empty-workspace"], port, home, 120, DAGSTER_HOME=str(home)):
        yield f"http://127.0.0.1:{port}", home


def evil_page(target: str) -> AbstractContextManager[tuple[int, list[str]]]:
    """A page that attacks a server, at a port of this machine."""
    return serving(200, ATTACK.replace("TARGET", target).encode())


def attack(page: Page, url: str, host: str) -> bool:
    """Have a page at a host try everything on a server; whether it could listen."""
    change = 'mutation { setConcurrencyLimit(concurrencyKey: "navigation", limit: 1) }'
    with evil_page(url) as (port, _):
        page.goto(f"http://{host}:{port}/")
        page.wait_for_function("window.tried")
        listens = page.evaluate("window.listens === true")
        page.evaluate("address => { location = address }", f"{url}/graphql?{httpx.QueryParams({'query': change})}")
        page.wait_for_url(f"{url}/graphql?*")
        page.wait_for_load_state()
    return listens


def test_without_the_gate_a_foreign_page_changes_things_and_listens(page: Page, open_to_all: tuple[str, Path]):
    url, home = open_to_all
    assert attack(page, url, "evil.example")
    assert changes(home) == WITHOUT_THE_GATE


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost"])
def test_a_foreign_page_in_a_browser_that_is_logged_in_changes_nothing_and_hears_nothing(
    page: Page, guarded: ServedDagster, host: str
):
    page.goto(guarded.link)
    assert not attack(page, guarded.url, host)
    assert changes(guarded.home) == set()


def test_a_name_that_is_made_to_lead_to_this_machine_is_refused(page: Page, guarded: ServedDagster):
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
        assert (
            client.get(
                guarded.link.replace("/asset-groups?", "/runs?"), headers={"Host": "rebound.example"}
            ).status_code
            == 403
        )


def test_a_link_from_elsewhere_asks_for_one_click_more(page: Page, guarded: ServedDagster):
    page.goto(guarded.link)
    expect(page.get_by_role("link", name="Runs").first).to_be_visible()
    with evil_page(guarded.url) as (port, _):
        page.goto(f"http://evil.example:{port}/")
        page.evaluate("address => { location = address }", f"{guarded.url}/runs")
        # Strict cookies do not come along with another site's link.
        page.get_by_role("link", name="continue").click()
    expect(page.get_by_role("link", name="Runs").first).to_be_visible()
