"""One exchange, against services that are written at the socket: slow ones of every kind, redirects, TLS."""

import asyncio
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import polars as pl
import pytest

from spark_jobs.jobs.batched_enrichment.protocol import Batch, Outcome
from spark_jobs.jobs.batched_enrichment.services import Service
from tests.spark_jobs.jobs.batched_enrichment.scripted_service import Answer, scripted_service
from tests.spark_jobs.jobs.batched_enrichment.test_client import batch, call, parameters

TIMEOUT = 0.6
"""Seconds. Far from the time-out, so that a busy machine does not decide a test, and far below what would be waited
without one."""


class Caller:
    """A connection as the service at the socket sees it; it ends with the test."""

    def __init__(self, connection: socket.socket, ended: threading.Event) -> None:
        self.connection, self.ended = connection, ended

    def drip(self, content: bytes) -> None:
        """Send a byte at a time, each well within the time-out, for as long as it is taken."""
        for place in range(len(content)):
            self.connection.sendall(content[place : place + 1])
            if self.ended.wait(0.02):
                return

    def say_nothing(self) -> None:
        self.ended.wait(30)


@contextmanager
def at_the_socket(play: Callable[[Caller], None]) -> Iterator[int]:
    """Play with each connection; give the port."""
    ended = threading.Event()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                play(Caller(connection, ended))

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)


def post(url: str, content: pl.Series | None = None, *, timeout: float = 5.0, tries: int = 1) -> Outcome:
    """Call the service with one event, and return its outcome."""
    events = pl.Series(['{"n":1}']) if content is None else content
    (outcome,) = asyncio.run(
        call(
            Service(url=url),
            parameters(timeout=timeout, max_attempts=tries),
            Batch("test/0", pl.Series(["1"]), events),
            [],
            lambda: 0.0,
        )
    )
    return outcome


def test_a_call_after_one_that_was_given_up_has_all_its_time_again():
    with scripted_service(Answer(delay=2.0), Answer()) as service:
        assert post(service.url, timeout=TIMEOUT, tries=2) == Outcome('{"n":1}', 2, 200)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_token_stays(status, monkeypatch):
    monkeypatch.setenv("GEO_TOKEN", "a-secret-token")
    with (
        scripted_service(Answer()) as other,
        scripted_service(Answer(status, b"moved", headers={"Location": other.url})) as service,
    ):
        named = Service(url=service.url, token_variable="GEO_TOKEN")  # noqa: S106 - a name
        (outcome,) = set(asyncio.run(call(named, parameters(), batch(), [], lambda: 1.0)))
    assert (outcome.status, outcome.attempts) == (status, 1)
    assert "redirects are not followed" in (outcome.answer or "")
    assert (len(service.keys), other.keys) == (1, [])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout key.pem -out certificate.pem"
    )
    try:
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed, which makes this test's certificate")
    return folder


def over_tls(certificate, answer: Callable[[Caller], None]) -> Callable[[Caller], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")

    def play(caller: Caller) -> None:
        with context.wrap_socket(caller.connection, server_side=True) as connection:
            take_request(connection)
            answer(Caller(connection, caller.ended))

    return play


def take_request(connection: ssl.SSLSocket) -> None:
    """Read the whole request: closed on one that is half read, a connection takes the answer with it."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(10_000)
    head, _, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += connection.recv(10_000)


def test_tls_works_and_is_verified(certificate, monkeypatch):
    body = b'{"results": [{"status": 200, "enrichment": 1}]}'
    done = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with at_the_socket(over_tls(certificate, lambda caller: caller.connection.sendall(done))) as port:
        url = f"https://localhost:{port}/"
        assert "CERTIFICATE_VERIFY_FAILED" in (post(url).answer or "")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "certificate.pem"))
        assert post(url).enrichment == "1"
