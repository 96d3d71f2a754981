"""The proxy's example configuration, played: nginx before Dagster's own web server, whose doors stand open without it."""

import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.ports import free_port

NGINX = shutil.which("nginx") or ("/usr/sbin/nginx" if Path("/usr/sbin/nginx").exists() else None)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        NGINX is None, reason="nginx is not installed (Debian's package nginx-light): the proxy's example is not played"
    ),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed, which makes the certificate"),
]

EXAMPLE = Path(__file__).parents[2] / "docs" / "nginx.conf"
LOGIN = ("ann", "a-password")
CHANGES = "mutation { setNuxSeen }"
"""A mutation like those that start runs, and harmless."""


class Site(NamedTuple):
    url: str
    origin: str
    dagster: str
    call: httpx.Client


def answers(url: str, process: subprocess.Popen[bytes], log: Path, **options) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            httpx.get(url, timeout=5, **options)
        except httpx.TransportError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(log.read_text())


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("proxy")
    dagster_port, port = free_port(), free_port()
    home = folder / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    (folder / "nothing.py").write_text("import dagster as dg\n\ndefs = dg.Definitions()\n")
    web_log, proxy_log = folder / "dagster.log", folder / "nginx.log"
    web_server = [
        sys.executable,
        "-m",
        "dagster_webserver",
        "-h",
        "127.0.0.1",
        "-p",
        str(dagster_port),
        "-f",
        "nothing.py",
    ]
    with (
        web_log.open("wb") as web_out,
        subprocess.Popen(
            web_server, cwd=folder, env={**os.environ, "DAGSTER_HOME": str(home)}, stdout=web_out, stderr=web_out
        ) as dagster,
    ):
        try:
            answers(f"http://127.0.0.1:{dagster_port}/server_info", dagster, web_log)
            configuration = configured(folder, port, dagster_port)
            with (
                proxy_log.open("wb") as out,
                subprocess.Popen(
                    [
                        str(NGINX),
                        "-p",
                        str(folder),
                        "-c",
                        str(configuration),
                        "-e",
                        str(proxy_log),
                        "-g",
                        foreground(folder),
                    ],
                    stdout=out,
                    stderr=out,
                ) as proxy,
            ):
                try:
                    url = f"https://127.0.0.1:{port}"
                    answers(url, proxy, proxy_log, verify=False)
                    with httpx.Client(
                        base_url=url,
                        verify=False,  # noqa: S501 - its own certificate
                        auth=LOGIN,
                        timeout=30,
                        headers={"Host": "keyfold.example.org"},
                    ) as call:
                        yield Site(url, "https://keyfold.example.org", f"http://127.0.0.1:{dagster_port}", call)
                finally:
                    proxy.terminate()
                    proxy.wait(timeout=30)
        finally:
            dagster.terminate()
            dagster.wait(timeout=60)


def foreground(folder: Path) -> str:
    # Else its workers could not read this test's folder, which is root's alone.
    user = "user root;" if os.geteuid() == 0 else ""
    return f"daemon off; worker_processes 1; pid {folder}/nginx.pid; {user}"


def configured(folder: Path, port: int, dagster_port: int) -> Path:
    """The example with this test's ports and paths in place of its own, each of which must be there."""
    docs = folder / "data_docs"
    docs.mkdir()
    (docs / "index.html").write_text("what a check found")
    certificate = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=keyfold.example.org "
        "-keyout keyfold.key -out keyfold.crt"
    )
    subprocess.run(certificate.split(), cwd=folder, check=True, capture_output=True)
    secret = subprocess.run(["openssl", "passwd", "-6", LOGIN[1]], capture_output=True, text=True, check=True).stdout
    (folder / "keyfold.htpasswd").write_text(f"{LOGIN[0]}:{secret}")
    text = EXAMPLE.read_text(encoding="utf-8")
    for own, ours in {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/nginx/": f"{folder}/",
        "http://127.0.0.1:3000": f"http://127.0.0.1:{dagster_port}",
        "/srv/keyfold/data_docs/": f"{docs}/",
        "http {\n": "http {\n"
        + "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f"access_log {folder}/access.log;\n",
    }.items():
        assert own in text, own
        text = text.replace(own, ours)
    (folder / "nginx.conf").write_text(text)
    return folder / "nginx.conf"


def test_without_the_proxy_any_page_s_get_changes_something_and_so_does_a_form(site):
    """The door: why Dagster's own port must not be reachable from where browsers are."""
    elsewhere = {"Origin": "https://evil.example.org"}
    assert httpx.get(f"{site.dagster}/graphql", params={"query": CHANGES}, headers=elsewhere).json()["data"]
    form = httpx.post(f"{site.dagster}/graphql", params={"query": CHANGES}, data={"a": "b"}, headers=elsewhere)
    assert form.json()["data"]


@pytest.mark.parametrize("path", ["/", "/server_info", "/data-docs/index.html", "/runs"])
def test_without_a_login_nothing_is_shown(site, path):
    assert httpx.get(f"{site.url}{path}", verify=False).status_code == 401  # noqa: S501
    wrong = httpx.get(f"{site.url}{path}", verify=False, auth=("ann", "another"))  # noqa: S501
    assert wrong.status_code == 401
    assert site.call.post("/graphql", json={"query": CHANGES}, auth=("bob", "")).status_code == 401


def test_with_a_login_the_pages_their_calls_and_the_result_pages_work(site):
    page = site.call.get("/")
    assert page.status_code == 200
    assert "<html" in page.text
    script = re.search(r'src="(/[^"]+\.js)"', page.text)
    assert script is not None
    assert site.call.get(script[1]).status_code == 200
    assert site.call.get("/data-docs/index.html").text == "what a check found"
    ask = {"query": "{ version }"}
    assert site.call.post("/graphql", json=ask, headers={"Origin": site.origin}).json()["data"]["version"]
    assert site.call.post("/graphql", json=ask).json()["data"]["version"], "a program that is no browser"
    changed = site.call.post("/graphql", json={"query": CHANGES}, headers={"Origin": site.origin})
    assert changed.json()["data"] == {"setNuxSeen": True}


@pytest.mark.parametrize(
    "method_and_type",
    [
        ("GET", None),
        ("GET", "application/json"),
        ("HEAD", None),
        ("POST", None),
        ("POST", "application/x-www-form-urlencoded"),
        ("POST", "text/plain"),
        ("POST", "multipart/form-data; boundary=x"),
        ("POST", "text/plain; application/json"),
        ("POST", "application/graphql"),
        ("PUT", "application/json"),
        ("OPTIONS", "application/json"),
    ],
)
@pytest.mark.parametrize("origin", [None, "own"])
def test_a_call_that_any_page_can_make_is_refused_with_a_login_too(site, method_and_type, origin):
    method, kind = method_and_type
    headers = {**({"Content-Type": kind} if kind else {}), **({"Origin": site.origin} if origin else {})}
    body = json.dumps({"query": CHANGES}) if method in ("POST", "PUT") else None
    answer = site.call.request(method, "/graphql", params={"query": CHANGES}, headers=headers, content=body)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example.org", "null", "http://keyfold.example.org", "https://keyfold.example.org.evil.org"]
)
def test_another_site_s_page_is_refused_whatever_it_calls(site, origin):
    headers = {"Origin": origin}
    assert site.call.post("/graphql", json={"query": CHANGES}, headers=headers).status_code == 403
    assert site.call.post("/report_asset_materialization/x", json={}, headers=headers).status_code == 403
    assert site.call.get("/", headers=headers).status_code == 403


def test_the_pages_cannot_be_framed_and_take_no_other_method(site):
    assert "frame-ancestors 'none'" in site.call.get("/").headers["Content-Security-Policy"]
    assert site.call.delete("/").status_code == 403


def websocket(site: Site, origin: str, login: bool = True):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    word = base64.b64encode(":".join(LOGIN).encode()).decode()
    return connect(
        f"{site.url.replace('https', 'wss')}/graphql",
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
