"""Whatever stands where a warm Spark's address should: told in seconds, in one line, and nothing is left behind."""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from keyfold.session.warm.address import WarmAddress, held, read, write
from keyfold.session.warm.client import HANDSHAKE_SECONDS, attach

SECRET = "0123456789abcdef"  # noqa: S105


@pytest.fixture
def address(tmp_path) -> Path:
    return tmp_path / "warm" / "warm-spark.json"


@pytest.fixture(autouse=True)
def without_a_session(monkeypatch):
    """As in a process that a run begins in: tests of other modules may have left theirs running."""
    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)


def refusal(address: Path) -> str:
    """Why a run does not attach; told within a bounded time, in one line, and without the secret."""
    began = time.monotonic()
    with pytest.raises(KeyfoldError) as raised:
        attach(address, SparkSettings())
    assert time.monotonic() - began < HANDSHAKE_SECONDS + 30
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
    told = str(raised.value)
    assert "\n" not in told
    assert SECRET not in told
    return told


def test_an_address_is_read_while_it_is_held(address):
    with held(address):
        write(address, WarmAddress(4711, SECRET))
        assert read(address) == WarmAddress(4711, SECRET)
        assert (address.stat().st_mode & 0o777, SECRET in repr(read(address))) == (0o600, False)
    assert not address.exists()


def test_an_address_that_is_not_there_is_told(address):
    assert "no warm Spark serves at" in refusal(address)


def test_an_address_that_nobody_holds_is_stale_though_its_port_answers(address):
    """As after a crash: another program may have got the port, and the process id, since."""
    address.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        write(address, WarmAddress(other.getsockname()[1], SECRET))
        assert "has ended" in refusal(address)
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()


def test_an_address_of_the_earlier_form_with_a_reused_process_id_is_stale(address):
    address.parent.mkdir()
    address.write_text(json.dumps({"pid": os.getpid(), "port": 1, "secret": SECRET}))
    address.chmod(0o600)
    assert "has ended" in refusal(address)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\x00\xff",
        b"[" * 10_000,
        b"null",
        b"[]",
        b"{}",
        b'{"port": 1}',
        b'{"port": "1", "secret": "0"}',
        b'{"port": true, "secret": "0"}',
        b'{"port": 70000, "secret": "0"}',
        b'{"port": -1, "secret": "0"}',
        b'{"port": 1, "secret": ""}',
        b'{"port": 1, "secret": "a\\nc\\no"}',
        b'{"port": 1, "secret": 3}',
    ],
)
def test_an_address_that_is_empty_or_garbage_is_told(address, content):
    with held(address):
        address.touch(mode=0o600)
        address.write_bytes(content)
        assert "does not hold the address of a warm Spark" in refusal(address)


def test_an_address_that_others_can_read_or_that_is_no_file_is_told(address):
    with held(address):
        write(address, WarmAddress(4711, SECRET))
        address.chmod(0o644)
        assert "open to other users (mode 0644)" in refusal(address)
        address.rename(address.with_name("elsewhere"))
        address.symlink_to("elsewhere")
        assert "cannot be read" in refusal(address)
        address.unlink()
        os.mkfifo(address, 0o600)
        assert "is not a regular file" in refusal(address), "and a pipe that nobody writes to is not waited for"
        address.unlink()
        address.mkdir(0o700)
        assert "is not a regular file" in refusal(address)
        with pytest.raises(KeyfoldError, match="cannot be removed"), held(address.with_name("folder")):
            address.with_name("folder").mkdir()
        address.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_an_address_of_another_user_is_told(address):
    with held(address):
        write(address, WarmAddress(4711, SECRET))
        os.chown(address, 65_534, -1)
        assert "belongs to another user" in refusal(address)


def test_one_address_has_one_holder_and_one_that_looks_does_not_count(address):
    with held(address), pytest.raises(KeyfoldError, match="belongs to a warm Spark that is running"), held(address):
        pass
    with open(address.with_name(f".{address.name}.lock")) as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.2, lambda: fcntl.flock(looking, fcntl.LOCK_UN)).start()
        with held(address):
            pass


def test_what_an_earlier_holder_left_is_gone_once_another_holds_the_address(address):
    address.parent.mkdir()
    write(address, WarmAddress(4711, SECRET))
    with held(address):
        assert "no warm Spark serves" in refusal(address)


def test_a_place_that_cannot_be_written_to_is_told(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "warm.json", Path("/proc/warm/warm.json")):
        with pytest.raises(KeyfoldError, match=r"cannot be written to .*give another --address"), held(place):
            pass


@contextmanager
def listening(play: Callable[[socket.socket], None]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(1000)
                play(connection)

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)


def drip(connection: socket.socket) -> None:
    for _ in range(99):
        connection.sendall(b"!")
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("play", "told"),
    [
        (lambda connection: time.sleep(20), "does not answer within 3 s"),
        (drip, "does not answer within 3 s"),
        (lambda connection: connection.close(), "is not the warm Spark"),
        (lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "is not the warm Spark"),
        (lambda connection: connection.sendall(b"!x\n"), "is not the warm Spark"),
        (lambda connection: connection.sendall(b"\xff" * 1000), "is not the warm Spark"),
    ],
    ids=["silent", "dripping", "closing", "http", "refusing", "noise"],
)
def test_whatever_else_listens_there_is_told_in_seconds(address, play, told):
    with held(address), listening(play) as port:
        write(address, WarmAddress(port, SECRET))
        assert told in refusal(address)


def test_a_port_where_nothing_listens_is_told(address):
    with held(address), socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        write(address, WarmAddress(closed.getsockname()[1], SECRET))
        assert "does not answer" in refusal(address)


def test_one_that_knows_the_handshake_and_nothing_else_is_told_and_leaves_the_process_as_it_was(address):
    def play(connection: socket.socket) -> None:
        connection.sendall(b"!yv\n")
        while connection.recv(1000):
            connection.sendall(b"!x\n")

    with held(address), listening(play) as port:
        write(address, WarmAddress(port, SECRET))
        assert "does not answer as one" in refusal(address)
    assert SparkContext._gateway is None


def test_the_java_of_an_earlier_session_of_the_process_is_left_as_it_was(address, monkeypatch):
    def play(connection: socket.socket) -> None:
        connection.sendall(b"!yv\n")
        while connection.recv(1000):
            connection.sendall(b"!x\n")

    own = SimpleNamespace(jvm=object())
    monkeypatch.setattr(SparkContext, "_gateway", own)
    with held(address), listening(play) as port:
        write(address, WarmAddress(port, SECRET))
        assert "does not answer as one" in refusal(address)
    assert SparkContext._gateway is own
    assert SparkContext._jvm is own.jvm


def test_a_process_that_has_a_session_does_not_attach(address, monkeypatch):
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    assert "has a Spark session" in refusal(address)
