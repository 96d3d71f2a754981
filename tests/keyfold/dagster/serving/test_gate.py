"""The gate before Dagster's web server: what passes to the application behind it, and what does not."""

import asyncio
import io
import json
import logging
import socket
import threading
from urllib.parse import parse_qs, urlsplit

import dagster_webserver
import httpx
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from keyfold.dagster.serving.gate import Gate
from tests.examples import examples

KEY = "not-drawn-by-chance-so-that-tests-have-one-name"
OWN = "http://127.0.0.1:3000"
CHANGES = {"query": "mutation { setNuxSeen }"}


async def inside(scope, receive, send):
    """An application that does whatever it is asked."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "inside"})
        await send({"type": "websocket.close"})
    elif scope["type"] == "http":
        body = json.dumps({"inside": scope["path"], "query": scope["query_string"].decode()}).encode()
        kind = (b"content-type", b"application/json")
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
def stranger():
    return TestClient(Gate(inside, KEY, "Keyfold.example.org"), base_url=OWN, follow_redirects=False)


@pytest.fixture
def browser(stranger):
    """Who has opened the link."""
    assert stranger.get(f"/?token={KEY}").status_code == 303
    return stranger


def websocket(client, **headers):
    with client.websocket_connect(f"{OWN.replace('http', 'ws')}/graphql", headers=headers) as opened:
        return opened.receive_text()


def test_the_link_logs_in_and_is_an_address_without_the_token_then(stranger):
    answer = stranger.get(f"/runs?view=all&token={KEY}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?view=all")
    assert answer.headers["referrer-policy"] == "no-referrer"
    cookie = answer.headers["set-cookie"]
    assert KEY not in cookie
    # Of this port: a browser sends it to the servers of all ports.
    assert cookie.startswith("keyfold-3000=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert stranger.get("/runs").json()["inside"] == "/runs"
    # Once more, and with a token of yesterday: it does not stay in the address.
    assert stranger.get(f"/runs?token={KEY}").headers["location"] == "/runs"
    assert stranger.get("/runs?token=old").headers["location"] == "/runs"


@pytest.mark.parametrize(
    "path", ["/", "/graphql", "/server_info", "/logs/x", "/?token=", "/?token=wrong", f"/?Token={KEY}"]
)
def test_without_a_login_nothing_is_served(stranger, path):
    refused = [
        stranger.get(path),
        stranger.post(path, json=CHANGES),
        stranger.post(f"/graphql?token={KEY}", json=CHANGES),
        stranger.get(path, headers={"Authorization": "Bearer wrong"}),
        stranger.get(path, headers={"Authorization": f"Basic {KEY}"}),
        stranger.get(path, headers={"Authorization": "Bearer ä".encode()}),
        stranger.get(path, headers={"Cookie": f"keyfold-3000={KEY}"}),
        stranger.get(path, headers={"Cookie": "keyfold-3000="}),
    ]
    assert [answer.status_code for answer in refused] == [401] * len(refused)
    assert not any("inside" in answer.text or "set-cookie" in answer.headers for answer in refused)
    assert {answer.headers["cache-control"] for answer in refused} == {"no-store"}
    with pytest.raises(WebSocketDisconnect):
        websocket(stranger, origin=OWN)


def test_a_program_sends_the_token_itself(stranger):
    headers = {"Authorization": f"Bearer {KEY}"}
    assert stranger.post("/graphql", json=CHANGES, headers=headers).status_code == 200
    assert websocket(stranger, **headers) == "inside"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:3000", 200),
        ("LOCALHOST", 200),
        ("[::1]:3000", 200),
        ("127.0.0.1:8080", 200),
        ("Keyfold.example.org", 200),
        ("evil.example", 403),
        ("evil.example:3000", 403),
        ("127.0.0.1.evil.example:3000", 403),
        ("keyfold.example.org.evil.example", 403),
        ("127.0.0.1:3000@evil.example", 403),
        ("", 403),
    ],
)
def test_a_foreign_name_of_this_machine_is_refused(stranger, host, status):
    headers = {"Host": host, "Authorization": f"Bearer {KEY}"}
    assert stranger.get("/", headers=headers).status_code == status
    if status == 403:
        assert stranger.get(f"/?token={KEY}", headers={"Host": host}).status_code == 403
        with pytest.raises(WebSocketDisconnect):
            websocket(stranger, **headers)


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:3001"},
    {"origin": "http://localhost:3000"},
    {"origin": f"{OWN}.evil.example"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_page_of_another_origin_is_refused_with_a_login_too(browser, headers):
    assert browser.post("/graphql", json=CHANGES, headers=headers).status_code == 403
    assert browser.get("/logs/x", headers=headers).status_code == 403
    with pytest.raises(WebSocketDisconnect):
        websocket(browser, **headers)


@pytest.mark.parametrize("site", ["same-origin", "none", None])
def test_the_own_pages_calls_and_websockets_pass(browser, site):
    headers = {"origin": OWN} | ({"sec-fetch-site": site} if site else {})
    assert browser.post("/graphql", json=CHANGES, headers=headers).status_code == 200
    assert websocket(browser, **headers) == "inside"
    answer = browser.get("/runs", headers=headers)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    # A link in a message: a page is opened, and nothing changes by that.
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert browser.get("/runs/1", headers=link).status_code == 200
    assert browser.post("/graphql", json=CHANGES, headers=link).status_code == 403
    # A proxy speaks https to the browser, and does not say so.
    assert browser.post("/graphql", json=CHANGES, headers={"origin": OWN.replace("http", "https")}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "kind", "status"),
    [
        ("GET", "/graphql?query=mutation", None, 405),
        ("GET", "/graphql?query=mutation", "application/json", 405),
        ("HEAD", "/graphql?query=mutation", None, 405),
        ("GET", "/dagster/graphql/?query=mutation", None, 405),
        ("GET", "/graphql%0A?query=mutation", None, 400),
        ("GET", "/%67raphql?query=mutation", None, 405),
        ("POST", "/graphql?query=mutation", None, 415),
        ("POST", "/graphql", "application/x-www-form-urlencoded", 415),
        ("POST", "/graphql", "multipart/form-data; boundary=x", 415),
        ("POST", "/graphql", "text/plain", 415),
        ("POST", "/graphql", "text/plain; application/json", 415),
        ("POST", "/graphql", "application/graphql", 415),
        ("POST", "/report_asset_materialization/x", "text/plain", 415),
        ("PUT", "/graphql", "application/json", 405),
        ("DELETE", "/", None, 405),
        ("OPTIONS", "/graphql", "application/json", 405),
    ],
)
def test_a_change_is_a_post_of_json_alone(browser, method, path, kind, status):
    content = json.dumps(CHANGES) if method in ("POST", "PUT") else None
    headers = {"content-type": kind} if kind else {}
    assert browser.request(method, path, content=content, headers=headers).status_code == status


def test_two_hosts_origins_or_media_types_are_refused(browser):
    two = [("content-type", "application/json"), ("content-type", "text/plain")]
    assert browser.post("/graphql", content=b"{}", headers=httpx.Headers(two)).status_code in (400, 415)
    two = [("origin", OWN), ("origin", "https://evil.example")]
    assert browser.post("/graphql", json=CHANGES, headers=httpx.Headers(two)).status_code == 403
    hosts = [(b"host", b"127.0.0.1:3000"), (b"host", b"evil.example")]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": hosts, "scheme": "http"}
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(Gate(inside, KEY)(scope, None, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 403


@examples(200)
@given(path=st.text(st.characters(codec="utf-8"), max_size=8), query=st.text(max_size=8))
def test_whatever_the_address_the_redirect_stays_on_the_server_and_has_no_token(path, query):
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "server": ("127.0.0.1", 3000),
        "path": f"/{path}",
        "query_string": f"a={httpx.QueryParams({'b': query})}&token={KEY}".encode(),
        "headers": [(b"host", b"127.0.0.1:3000")],
    }
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(Gate(inside, KEY)(scope, None, send))  # type: ignore[arg-type]
    if sent[0]["status"] == 303:
        where = urlsplit(dict(sent[0]["headers"])[b"location"].decode())
        assert (where.scheme, where.netloc, where.path[:1]) == ("", "", "/")
        assert "token" not in parse_qs(where.query)
    else:
        assert sent[0]["status"] in (400, 405)
    assert KEY not in str(sent) + str(scope)


def test_no_log_has_the_token(monkeypatch):
    written = io.StringIO()
    # The logger's own handler: other tests configure uvicorn's loggers, which then pass nothing on.
    log = logging.getLogger("uvicorn.access")
    monkeypatch.setattr(log, "handlers", [logging.StreamHandler(written)])
    monkeypatch.setattr(log, "disabled", False)
    monkeypatch.setattr(log, "level", logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(Gate(inside, KEY), log_config=None, access_log=True, log_level="info"))
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        serving.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with httpx.Client(trust_env=False, timeout=30, follow_redirects=True) as client:
                assert client.get(f"{url}/runs?token={KEY}").json()["inside"] == "/runs"
                assert client.get(f"{url}/?token=wrong{KEY}").status_code == 200
        finally:
            server.should_exit = True
            serving.join(30)
    assert '"GET /runs HTTP/1.1" 303' in written.getvalue()
    assert KEY not in written.getvalue()


def test_behind_a_proxy_that_speaks_https_its_pages_are_the_only_own_ones():
    client = TestClient(Gate(inside, KEY, "keyfold.example.org"), base_url="https://keyfold.example.org")
    headers = {"Authorization": f"Bearer {KEY}"}
    for origin, status in [("https://keyfold.example.org", 200), ("http://keyfold.example.org", 403)]:
        assert client.post("/graphql", json=CHANGES, headers=headers | {"origin": origin}).status_code == status
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(
            "wss://keyfold.example.org/graphql", headers=headers | {"origin": "http://keyfold.example.org"}
        ),
    ):
        pass
    assert "Secure" in client.get(f"/?token={KEY}", follow_redirects=False).headers["set-cookie"]


def test_the_web_server_is_the_version_whose_private_parts_are_used():
    """Another version: see what `dagster_webserver/cli.py` and `dagster/_cli/dev.py` do, then change this number."""
    assert dagster_webserver.__version__ == "1.13.27"
