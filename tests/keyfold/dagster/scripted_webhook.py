"""A webhook on loopback that does, connection by connection, what a script says, down to single bytes."""

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

Act = Callable[[socket.socket], None]


def answer(status: int, *headers: str) -> Act:
    lines = (f"HTTP/1.1 {status} Said", "Content-Length: 0", *headers, "", "")
    return lambda connection: connection.sendall("\r\n".join(lines).encode())


def hang(seconds: float = 30) -> Act:
    """Take the message and say nothing."""
    return lambda connection: time.sleep(seconds)


def drip(content: bytes = OK, pause: float = 0.2) -> Act:
    """Answer a byte at a time, so that no single wait is long."""

    def act(connection: socket.socket) -> None:
        for byte in content * 20:
            connection.sendall(bytes([byte]))
            time.sleep(pause)

    return act


def reset(connection: socket.socket) -> None:
    """Break the connection off."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def garbage(connection: socket.socket) -> None:
    """Speak no HTTP."""
    connection.sendall(b"220 mail.example ESMTP\r\n")


class ScriptedWebhook:
    """Accepts connections one after the other; what is not in the script is answered with 200.

    Attributes:
        url: with a secret in it.
        script: what is done with the next connections.
        got: the messages that were answered with 200.
        tried: how many messages came.
    """

    def __init__(self) -> None:
        self.script: list[Act] = []
        self.got: list[dict[str, Any]] = []
        self.tried = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/services/SECRET"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            file = connection.makefile("rb")
            length = 0
            while (line := file.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            content = json.loads(file.read(length))
            self.tried += 1
            act = self.script.pop(0) if self.script else None
            if act is None:
                self.got.append(content)
                connection.sendall(OK)
            else:
                act(connection)
