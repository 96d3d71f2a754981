"""A server on loopback that does not speak HTTP as one would like, call by call; after its script it answers well."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

Act = Callable[[socket.socket, "HostileServer"], None]
LONG = 30.0
"""Seconds that a connection is kept busy at most; callers must have given up long before."""


def _answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def _answers(content: bytes) -> Act:
    return lambda connection, _: connection.sendall(_answer(content))


def _for_long(connection: socket.socket, first: bytes, part: bytes, pause: float = 0.0) -> None:
    connection.sendall(first)
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        connection.sendall(part)
        time.sleep(pause)


ACTS: dict[str, Act] = {
    "hangs": lambda connection, _: time.sleep(LONG),
    "resets the connection": lambda connection, _: connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
    ),
    "closes without a word": lambda connection, _: None,
    "speaks no HTTP": lambda connection, _: connection.sendall(b"220 mail.example ESMTP\r\n"),
    "sends endless headers": lambda connection, _: _for_long(
        connection, b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"a" * 1000 + b"\r\n"
    ),
    "sends an endless header line": lambda connection, _: _for_long(
        connection, b"HTTP/1.1 200 OK\r\nX-Long: ", b"a" * 1000
    ),
    "sends interim answers without end": lambda connection, _: _for_long(
        connection, b"", b"HTTP/1.1 102 Processing\r\n\r\n", 0.001
    ),
    "sends an endless body": lambda connection, _: _for_long(connection, b"HTTP/1.1 200 OK\r\n\r\n", b"[" * 65_536),
    "sends an endless chunked body": lambda connection, _: _for_long(
        connection, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"[" * 65_536 + b"\r\n"
    ),
    "drips its answer": lambda connection, _: _for_long(
        connection, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" ", 0.1
    ),
    "breaks off amid its answer": lambda connection, _: connection.sendall(
        b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"results": ['
    ),
    "says two lengths": lambda connection, _: connection.sendall(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"
    ),
    "redirects to another host": lambda connection, server: connection.sendall(
        _answer(b"", f"Location: {server.trap}", status="307 Temporary Redirect")
    ),
    "sends a gzip bomb": lambda connection, _: connection.sendall(
        _answer(gzip.compress(b"[" * (64 << 20), 9), "Content-Encoding: gzip")
    ),
    "nests a hundred thousand deep": lambda connection, _: connection.sendall(_answer(b"[" * 100_000 + b"]" * 100_000)),
    "answers 503 and asks for a year's patience": lambda connection, _: connection.sendall(
        _answer(b"later", "Retry-After: 31536000", status="503 Service Unavailable")
    ),
    **{
        f"answers {what}": _answers(content)
        for what, content in {
            "nothing": b"",
            "HTML": b"<html><body>Welcome!</body></html>",
            "no UTF-8": b"\xff\xfe\x00",
            "null": b"null",
            "a number": b"17",
            "too few results": b'{"results": []}',
            "a result of the wrong type": b'{"results": "all went well"}',
            "results without end of number": b'{"results": [1e999999, NaN, -Infinity]}',
        }.items()
    },
}
"""By what it does. A caller's own bound on time must end each."""


@dataclass
class HostileServer:
    """Listens until it is closed; a context manager.

    Attributes:
        script: what is done with the next connections, in turn.
        good: what a call gets after that, from the JSON it sent.
        tried: how many calls came.
        taken: the JSON of each call that was answered well.
        trapped: connections that came to where it redirects to.
    """

    good: Callable[[Any], Any]
    script: list[str] = field(default_factory=list)
    tried: int = 0
    taken: list[Any] = field(default_factory=list)
    trapped: int = 0

    def __enter__(self) -> Self:
        self._socket, self._trap = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        self.url, self.trap = (f"http://127.0.0.1:{one.getsockname()[1]}/" for one in (self._socket, self._trap))
        for listening, take in ((self._socket, self._take), (self._trap, self._spring)):
            threading.Thread(target=self._serve, args=(listening, take), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._trap.close()

    def _serve(self, listening: socket.socket, take: Callable[[socket.socket], None]) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=take, args=(connection,), daemon=True).start()

    def _spring(self, connection: socket.socket) -> None:
        self.trapped += 1
        connection.close()

    def _take(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            file, length = connection.makefile("rb"), 0
            while (line := file.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            content = json.loads(file.read(length))
            self.tried += 1
            if self.script:
                ACTS[self.script.pop(0)](connection, self)
                return
            self.taken.append(content)
            connection.sendall(_answer(json.dumps(self.good(content)).encode(), "Connection: close"))
