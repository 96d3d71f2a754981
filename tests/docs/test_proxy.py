"""The how-to's nginx before the pages of `make ui`: a login, and the gate behind it, which nginx opens with its token."""

import base64
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.ports import free_port, listening
from tests.served_dagster import served_dagster

ROOT = Path(__file__).parents[2]
FOUND = subprocess.run([str(ROOT / "scripts" / "nginx"), "find"], capture_output=True, text=True, check=False)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(FOUND.returncode != 0, reason="no nginx that runs: `make nginx-for-tests` unpacks Debian's"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed, which makes the certificate"),
]

LOGIN = ("ann", "a-password")
NAME = "keyfold.example.org"
CHANGES = "mutation { setNuxSeen }"
"""A mutation like those that start runs, and harmless."""


class Site(NamedTuple):
    """The pages behind nginx: the address, the same as a person's browser knows it, and a client that has logged in."""

    url: str
    origin: str
    call: httpx.Client


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    folder, port = tmp_path_factory.mktemp("proxy"), free_port()
    with served_dagster(folder, environment={"KEYFOLD_UI_URL": f"https://{NAME}"}) as served:
        pages = folder / "home" / "data_docs"
        pages.mkdir(parents=True)
        (pages / "page.html").write_text("what a check found")
        (folder / "keyfold-token.conf").write_text(f'proxy_set_header Authorization "Bearer {served.token}";\n')
        # Its workers could not read this test's folder, which is root's alone.
        user = "user root;" if os.geteuid() == 0 else ""
        command = [FOUND.stdout.strip(), "-p", folder, "-c", configured(folder, port, served.url), "-e", "stderr"]
        command += ["-g", f"daemon off; worker_processes 1; pid {folder}/nginx.pid; {user}"]
        with listening(command, port, folder):
            url, headers = f"https://127.0.0.1:{port}", {"Host": NAME}
            with httpx.Client(base_url=url, verify=False, auth=LOGIN, timeout=30, headers=headers) as call:  # noqa: S501
                yield Site(url, f"https://{NAME}", call)


def configured(folder: Path, port: int, pages: str) -> Path:
    """The example with this test's ports and paths in place of its own, each of which must be there."""
    certificate = (
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={NAME} "
        "-keyout keyfold.key -out keyfold.crt"
    )
    subprocess.run(certificate.split(), cwd=folder, check=True, capture_output=True)
    secret = subprocess.run(["openssl", "passwd", "-6", LOGIN[1]], capture_output=True, text=True, check=True).stdout
    (folder / "keyfold.htpasswd").write_text(f"{LOGIN[0]}:{secret}")
    temporary = [f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    text = (ROOT / "docs" / "nginx.conf").read_text(encoding="utf-8")
    for own, ours in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/nginx/": f"{folder}/",
        "http://127.0.0.1:3000": pages,
        "http {\n": "\n".join(["http {", *temporary, f"access_log {folder}/access.log;", ""]),
    }.items():
        assert own in text, own
        text = text.replace(own, ours)
    (folder / "nginx.conf").write_text(text)
    return folder / "nginx.conf"


@pytest.mark.parametrize("path", ["/", "/server_info", "/data_docs/page.html", "/runs", "/graphql"])
def test_without_a_login_nothing_is_shown(site, path):
    for auth in (None, ("ann", "another"), ("bob", "")):
        assert httpx.get(f"{site.url}{path}", verify=False, auth=auth).status_code == 401  # noqa: S501
    assert site.call.post("/graphql", json={"query": CHANGES}, auth=("bob", "")).status_code == 401


def test_with_a_login_the_pages_their_calls_and_the_result_pages_work(site):
    page = site.call.get("/")
    assert page.status_code == 200
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    script = re.search(r'src="(/[^"]+\.js)"', page.text)
    assert script is not None
    assert site.call.get(script[1]).status_code == 200
    assert site.call.get("/data_docs/page.html").text == "what a check found"
    assert site.call.post("/graphql", json={"query": "{ version }"}).json()["data"]["version"], "a program, no browser"
    changed = site.call.post("/graphql", json={"query": CHANGES}, headers={"Origin": site.origin})
    assert changed.json()["data"] == {"setNuxSeen": True}


# What else the gate refuses: tests/keyfold/dagster/serving/test_gate.py.
@pytest.mark.parametrize(
    ("method", "kind", "status"),
    [("GET", None, 405), ("POST", "application/x-www-form-urlencoded", 415), ("PUT", "application/json", 405)],
)
def test_a_call_that_any_page_can_make_is_refused_with_a_login_too(site, method, kind, status):
    headers = {**({"Content-Type": kind} if kind else {}), "Origin": site.origin}
    body = json.dumps({"query": CHANGES}) if method in ("POST", "PUT") else None
    answer = site.call.request(method, "/graphql", params={"query": CHANGES}, headers=headers, content=body)
    assert answer.status_code == status


FOREIGN = [
    {"Origin": "https://evil.example.org"},
    {"Origin": "null"},
    {"Origin": f"http://{NAME}"},
    {"Origin": f"https://{NAME}.evil.org"},
    {"Sec-Fetch-Site": "cross-site"},
    # What the proxy says of itself is not to be said by others.
    {"Origin": f"http://{NAME}", "X-Forwarded-Proto": "http"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_another_site_s_page_is_refused_whatever_it_calls(site, headers):
    assert site.call.post("/graphql", json={"query": CHANGES}, headers=headers).status_code == 403
    assert site.call.post("/report_asset_materialization/x", json={}, headers=headers).status_code == 403
    assert site.call.get("/", headers=headers).status_code == 403


def test_another_name_of_the_machine_is_refused(site):
    assert site.call.get("/", headers={"Host": "evil.example.org"}).status_code == 403


def websocket(site: Site, origin: str, login: bool = True) -> Any:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    word = base64.b64encode(":".join(LOGIN).encode()).decode()
    return connect(
        f"wss://{NAME}/graphql",
        sock=socket.create_connection(("127.0.0.1", httpx.URL(site.url).port)),
        ssl=context,
        origin=origin,  # type: ignore[arg-type]
        subprotocols=["graphql-ws"],  # type: ignore[list-item]
        additional_headers={"Authorization": f"Basic {word}"} if login else {},
        proxy=None,
    )


def test_websockets_pass_from_the_own_page_alone(site):
    with websocket(site, site.origin) as own:
        own.send(json.dumps({"type": "connection_init", "payload": {}}))
        assert json.loads(own.recv(timeout=30)) == {"type": "connection_ack"}
    for origin, login, status in [("https://evil.example.org", True, 403), (site.origin, False, 401)]:
        with pytest.raises(InvalidStatus) as raised, websocket(site, origin, login):
            pass
        assert raised.value.response.status_code == status
