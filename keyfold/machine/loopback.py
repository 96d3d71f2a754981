"""HTTP servers on the loopback address, which refuse requests with any other name as Host.

A browser can reach loopback from any web page. A page whose own name resolves to 127.0.0.1 (DNS rebinding) could also read
the answers. Its requests have that name as Host, so refusing other names than loopback's stops it.
"""

import math
import socket
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ADDRESS = "127.0.0.1"
NAMES = frozenset({ADDRESS, "localhost", "[::1]"})

READ_SECONDS = 10.0
"""Seconds within which a whole request must arrive."""

_MOST_CONNECTIONS = 64


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    Example:
        >>> host_name("LocalHost:3000"), host_name("[::1]:3000"), host_name("evil.example:80")
        ('localhost', '[::1]', 'evil.example')
    """
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server on 127.0.0.1 that a slow or idle caller cannot occupy.

    A connection is closed when its request has not arrived within `READ_SECONDS`, and at once when 64 others are open.

    Args:
        port: the port; 0 takes a free one.
        handler: the class that handles requests.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, port: int, handler: type["LoopbackHandler"]) -> None:
        self._deadlines: dict[socket.socket, float] = {}
        super().__init__((ADDRESS, port), handler)

    def has_arrived(self, connection: socket.socket) -> None:
        """End the time limit of a connection: its request has arrived."""
        self._deadlines[connection] = math.inf

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._deadlines) >= _MOST_CONNECTIONS:
            self.shutdown_request(request)
            return
        self._deadlines[request] = time.monotonic() + READ_SECONDS
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        # `serve_forever` calls it twice a second. A socket timeout does not suffice: each byte that arrives renews it.
        now = time.monotonic()
        for connection, deadline in list(self._deadlines.items()):
            if now > deadline:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: an error here means that the caller has closed the connection."""


class LoopbackHandler(BaseHTTPRequestHandler, ABC):
    """Handle GET requests whose Host is loopback; subclasses implement `answer`."""

    server: LoopbackServer  # pyright: ignore[reportIncompatibleVariableOverride]
    server_version, sys_version = "keyfold", ""

    def do_GET(self) -> None:
        self.server.has_arrived(self.connection)
        if [host_name(host) for host in self.headers.get_all("Host", [])] in [[name] for name in NAMES]:
            self.answer()
        else:
            self.send(403, "text/plain", f"Served to loopback alone: ask for it at {ADDRESS}.\n")

    @abstractmethod
    def answer(self) -> None:
        """Answer the request with `send`."""

    def send(self, status: int, kind: str, text: str) -> None:
        """Send a response; `kind` is its media type."""
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: each scrape of metrics would add a line."""
