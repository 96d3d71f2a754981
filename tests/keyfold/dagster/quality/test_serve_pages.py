"""The server of result pages: what it gives to whom, and how it ends."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from keyfold.dagster.quality.serve_pages import PageServer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    page = tmp_path / "pages" / "rides" / "1-run.html"
    page.parent.mkdir(parents=True)
    page.write_text("<p>äh</p>", encoding="utf-8")
    return tmp_path / "pages"


@pytest.fixture
def server(folder: Path) -> Iterator[PageServer]:
    with PageServer(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(server: PageServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        yield client


def status_of(server: PageServer, path: str) -> int:
    """Of a path as it stands: other clients tidy it up."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_page_is_served_as_html_that_may_load_nothing(client):
    answer = client.get("/rides/1-run.html?seen=1")
    assert (answer.status_code, answer.text) == (200, "<p>äh</p>")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(
        answer.headers["content-security-policy"].split("; ")
    )


@pytest.mark.parametrize("path", ["/", "/rides", "/rides/"])
def test_no_folder_is_listed(server, path):
    assert status_of(server, path) == 404


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.html",
        "/rides/../../secret.html",
        "/%2e%2e/secret.html",
        "/rides/..%2f..%2fsecret.html",
        "/..\\secret.html",
        "//secret.html",
        "/rides/1-run.html%00.html",
        "/.hidden.html",
        "/rides/notes.txt",
        "/rides/none.html",
        "/linked.html",
        "/outside/secret.html",
        "/rides/folder.html",
        f"/rides/{'x' * 5_000}.html",
        f"/{'rides/' * 2_000}1-run.html",
        "/%ed%a0%80.html",
        "//[",
        "x://[/1-run.html",
    ],
    ids=lambda path: path[:40],
)
def test_what_is_no_page_of_the_folder_is_not_there(server, folder, path):
    secret = folder.parent / "secret.html"
    secret.write_text("secret")
    (folder / ".hidden.html").write_text("secret")
    (folder / "rides" / "notes.txt").write_text("secret")
    (folder / "rides" / "folder.html").mkdir()
    (folder / "linked.html").symlink_to(secret)
    (folder / "outside").symlink_to(folder.parent)
    assert status_of(server, path) == 404


def test_the_absolute_path_of_a_file_leads_nowhere(server, folder):
    assert status_of(server, f"/{folder / 'rides' / '1-run.html'}") == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", ""])
def test_another_host_name_than_loopback_s_is_refused(client, server, host):
    answer = client.get("/rides/1-run.html", headers={"Host": host.format(port=server.server_address[1])})
    assert answer.status_code == 403
    assert "äh" not in answer.text


def test_loopback_by_its_name_is_welcome(client, server):
    host = {"Host": f"localhost:{server.server_address[1]}"}
    assert client.get("/rides/1-run.html", headers=host).status_code == 200


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_done_to_a_page(client, folder, method):
    assert client.request(method, "/rides/1-run.html").status_code == 501
    assert (folder / "rides" / "1-run.html").is_file()


def test_it_listens_on_loopback_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def command(folder: Path, port: int) -> list[str]:
    module = "keyfold.dagster.quality.serve_pages"
    return [sys.executable, "-m", module, "--folder", str(folder), "--port", str(port)]


def test_the_command_serves_until_it_is_asked_to_end(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(command(folder, port), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        transport = httpx.HTTPTransport(retries=10)
        with httpx.Client(trust_env=False, transport=transport) as client:
            assert client.get(f"http://127.0.0.1:{port}/rides/1-run.html").status_code == 200
        os.kill(process.pid, signal.SIGTERM)
        told, _ = process.communicate(timeout=20)
        assert (process.returncode, told) == (0, b"")
    finally:
        process.kill()
        process.wait()


def test_a_port_that_is_taken_is_said(folder, server):
    port = server.server_address[1]
    ended = subprocess.run(command(folder, port), capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert f"cannot be served on 127.0.0.1:{port}" in ended.stderr
    assert "Traceback" not in ended.stderr
