"""A store that fails, for tests: a proxy before a real one that answers 503, is slow, breaks off, or loses answers.

What fails is said by a function that sees each request, in the order in which they come; the clients, and our code, are
the real ones.
"""

import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_HOP_BY_HOP = {"connection", "expect", "keep-alive", "transfer-encoding"}


class Fault(Enum):
    """What becomes of a request."""

    BUSY = "it is answered with 503 SlowDown, and nothing is done"
    CUT = "the connection ends before anything is done"
    LOST = "it is done, and the connection ends without an answer"
    SLOW = "it is done after `FaultyStore.delay`"


@dataclass(frozen=True)
class Request:
    """A request as the store is asked it.

    Attributes:
        number: how many came before it.
        method: GET, PUT, HEAD, DELETE or POST.
        path: /bucket/key, and what is asked of it.
        conditional: whether it is a write that holds only where something is, or is not there.
    """

    number: int
    method: str
    path: str
    conditional: bool

    @property
    def writes(self) -> bool:
        return self.method in ("PUT", "POST", "DELETE")


Choose = Callable[[Request], Fault | None]


@dataclass
class FaultyStore:
    """A proxy that runs.

    Attributes:
        endpoint: its URL, for AWS_ENDPOINT_URL.
        choose: which requests fail; may be set anew at any time. None fail at first.
        delay: what a slow answer takes, in seconds.
        came: every request, and what became of it.

    Example:
        with faulty_store(object_store.endpoint) as faulty:
            faulty.choose = lambda request: Fault.LOST if request.writes and request.number % 3 == 0 else None
    """

    endpoint: str = ""
    choose: Choose = lambda _: None
    delay: float = 1.0
    came: list[tuple[Request, Fault | None]] = field(default_factory=list)

    def count(self, fault: Fault) -> int:
        """How many requests a fault has met."""
        return sum(one is fault for _, one in self.came)


@contextmanager
def faulty_store(behind: str) -> Iterator[FaultyStore]:
    """A proxy before the store at an endpoint, while the context lasts."""
    store, numbers, lock = FaultyStore(), itertools.count(), threading.Lock()
    upstream = urlsplit(behind).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self._body()
            conditional = any(name in self.headers for name in ("If-None-Match", "If-Match"))
            with lock:
                request = Request(next(numbers), self.command, self.path, conditional)
                fault = store.choose(request)
                store.came.append((request, fault))
            if fault is Fault.BUSY:
                self._answer(503, [("Content-Type", "application/xml")], b"<Error><Code>SlowDown</Code></Error>")
                return
            if fault is Fault.SLOW:
                time.sleep(store.delay)
            if fault is not Fault.CUT:
                status, headers, content = self._forward(body)
                if fault is not Fault.LOST:
                    self._answer(status, headers, content)
                    return
            self.close_connection = True

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)

        def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(upstream, timeout=60)
            try:
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in _HOP_BY_HOP and name.lower() != "content-length":
                        connection.putheader(name, value)
                if body or self.command in ("PUT", "POST"):
                    connection.putheader("Content-Length", str(len(body)))
                connection.endheaders(body)
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                connection.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            told = {name.lower() for name, _ in headers}
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            if "content-length" not in told:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    store.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def finish_request(self, request: Any, client_address: Any) -> None:
        with suppress(ConnectionError):
            super().finish_request(request, client_address)
