"""One exchange, against services that are written at the socket: slow ones of every kind, redirects, wrong addresses."""

import asyncio
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from keyfold.exchange import Exchanges, literal_address
from spark_jobs.jobs.batched_enrichment.client import ClientSettings
from spark_jobs.jobs.batched_enrichment.services import Service
from tests.spark_jobs.jobs.batched_enrichment.scripted_service import Answer, scripted_service
from tests.spark_jobs.jobs.batched_enrichment.test_client import batch, call

TIMEOUT = 0.6
PATIENCE = 10
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
def at_the_socket(play: Callable[[Caller], None]) -> Iterator[tuple[int, list[str]]]:
    """Play with each connection; give the port, and whom it was that connected."""
    ended, callers = threading.Event(), []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                play(Caller(connection, ended))

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, address = server.accept()
                    callers.append(address[0])
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1], callers
        finally:
            ended.set()
            server.shutdown(socket.SHUT_RDWR)


def post(url: str, *contents: bytes, timeout: float = 5) -> httpx.Response:
    """POST over one connection, and return the last response."""

    async def calls() -> httpx.Response:
        headers = {"Authorization": "Bearer a-token"}
        async with Exchanges(url, headers, timeout=timeout, max_connections=1) as exchanges:
            for content in contents[:-1]:
                with pytest.raises(TimeoutError):
                    await exchanges.post(content, {"Idempotency-Key": "a"})
            return await exchanges.post(contents[-1], {"Idempotency-Key": "a"})

    return asyncio.run(calls())


def is_given_up(url: str, content: bytes = b"{}") -> bool:
    """Whether a call ends by its time-out, and long before the service would end it."""
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        post(url, content, timeout=TIMEOUT)
    return time.monotonic() - began < PATIENCE


def drip_headers(caller: Caller) -> None:
    caller.drip(b"HTTP/1.1 200 OK\r\n" + b"X-Slow: 1\r\n" * 500)


def swallow_slowly(caller: Caller) -> None:
    """Take each piece well within the time-out; all of a long call would take twice the patience of this test."""
    while not caller.ended.wait(0.02):
        caller.connection.recv(120_000)


def drip_a_handshake(caller: Caller) -> None:
    caller.connection.recv(10_000)
    # A handshake record that promises 16 KiB.
    caller.drip(b"\x16\x03\x03\x40\x00" + b"\x02\x00\x3f\xfc" + b"\x00" * 5_000)


def take_each_step_in_time(caller: Caller) -> None:
    """Connect, headers and body each within the time-out, all together not."""
    caller.connection.recv(10_000)
    for part in (b"HTTP/1.1 200 OK\r\n", b"Content-Length: 4\r\n\r\n", b"do", b"ne"):
        caller.ended.wait(TIMEOUT * 0.6)
        caller.connection.sendall(part)


# One cancellation bounds all of a call: of the ways to be slow, one each of what it may be waiting for stands here.
@pytest.mark.parametrize(
    ("play", "scheme", "length"),
    [
        (drip_headers, "http", 2),
        (swallow_slowly, "http", 120_000_000),
        (Caller.say_nothing, "http", 2),
        (Caller.say_nothing, "https", 2),
        (drip_a_handshake, "https", 2),
        (take_each_step_in_time, "http", 2),
    ],
)
def test_a_slow_service_does_not_hold_a_call(play, scheme, length):
    with at_the_socket(play) as (port, _):
        assert is_given_up(f"{scheme}://127.0.0.1:{port}/", content=bytes(length))


def test_a_connection_that_nobody_accepts_does_not_hold_a_call():
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            assert is_given_up(f"http://127.0.0.1:{full.getsockname()[1]}/")
        finally:
            for one in waiting:
                one.close()


def test_a_resolver_that_is_away_does_not_hold_a_call(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ended.wait(30) and [])
    try:
        assert is_given_up("http://geo.example.org/")
    finally:
        ended.set()


def test_a_call_after_one_that_was_given_up_has_all_its_time_again():
    with scripted_service(Answer(delay=2.0), Answer()) as service:
        assert post(service.url, *[b'{"events": []}'] * 2, timeout=TIMEOUT).status_code == 200


def resolving(monkeypatch, *answers: list[str]) -> None:
    """Have every name resolve to these addresses: the first answer, then the second, and the last one ever after."""
    left, real = list(answers), socket.getaddrinfo

    def getaddrinfo(host, port, *rest, **more):
        if literal_address(host):
            return real(host, port, *rest, **more)
        addresses = left.pop(0) if len(left) > 1 else left[0]
        kinds = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [(kind, socket.SOCK_STREAM, 6, "", (one, port)) for kind, one in zip(kinds, addresses, strict=True)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def refusal(url: str) -> str:
    with pytest.raises(ConnectionError) as raised:
        post(url, b"{}")
    return str(raised.value)


@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        (["169.254.169.254"], "metadata"),
        (["fe80::1"], "link-local"),
        (["::ffff:169.254.169.254"], "metadata"),
        (["fd00:ec2::254"], "metadata"),
        (["203.0.113.9", "169.254.169.254"], "metadata"),
        (["127.0.0.1"], "this machine"),
        (["0.0.0.0"], "not the address of a single machine"),  # noqa: S104 - an address, bound to by nobody
    ],
)
def test_a_name_that_leads_to_a_forbidden_address_is_not_connected_to(addresses, reason, monkeypatch):
    with at_the_socket(Caller.say_nothing) as (port, callers):
        resolving(monkeypatch, addresses)
        assert reason in refusal(f"http://geo.example.org:{port}/")
    assert callers == []


def test_a_name_written_as_a_number_is_looked_at_like_any_other():
    # 2852039166 is 169.254.169.254, and 2130706433 is 127.0.0.1, to whoever resolves them.
    assert "metadata" in refusal("http://2852039166/")
    with at_the_socket(Caller.say_nothing) as (port, callers):
        assert "this machine" in refusal(f"http://2130706433:{port}/")
    assert callers == []


def test_localhost_that_leads_elsewhere_is_not_connected_to(monkeypatch):
    """Its token may go over plain http, so it must be this machine."""
    resolving(monkeypatch, ["203.0.113.9"])
    assert "not this machine" in refusal("http://localhost/")


def test_a_name_that_says_another_thing_the_second_time_is_connected_to_at_the_address_that_was_looked_at(monkeypatch):
    with scripted_service(Answer()) as service:
        resolving(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
        # `localhost`, since only that may lead to the service of this test.
        url = service.url.replace("127.0.0.1", "localhost")
        assert post(url, b'{"events": []}').status_code == 200
        with pytest.raises(ConnectionError):
            post(url, b'{"events": []}')
    assert len(service.keys) == 1


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch):
    with scripted_service(Answer()) as service, socket.socket() as closed:
        closed.bind(("127.0.0.2", int(service.url.rpartition(":")[2].strip("/"))))
        resolving(monkeypatch, ["127.0.0.2", "127.0.0.1"])
        assert post(service.url.replace("127.0.0.1", "localhost"), b'{"events": []}').status_code == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_token_stays(status, monkeypatch):
    monkeypatch.setenv("GEO_TOKEN", "a-secret-token")
    with (
        scripted_service(Answer()) as other,
        scripted_service(Answer(status, b"moved", headers={"Location": other.url})) as service,
    ):
        settings = ClientSettings(Service(url=service.url, token_variable="GEO_TOKEN"))  # noqa: S106 - a name
        (outcome,) = set(asyncio.run(call(settings, batch(), [], lambda: 1.0)))
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
    done = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"
    with at_the_socket(over_tls(certificate, lambda caller: caller.connection.sendall(done))) as (port, _):
        url = f"https://localhost:{port}/"
        assert "CERTIFICATE_VERIFY_FAILED" in refusal(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "certificate.pem"))
        assert post(url, b"{}").content == b"done"
