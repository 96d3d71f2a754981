"""A store that fails, for tests: a proxy before a real one that answers 503 or 403, is slow, breaks off, or loses answers.

What fails is said by a function that sees each request, in the order in which they come; the clients, and our code, are
the real ones.
"""

import http.client
import itertools
import os
import pickle
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from pyspark import cloudpickle

from tests.object_store import process_with_port

_CONTROL = "/-/faults"
_HOP_BY_HOP = {"connection", "expect", "keep-alive", "transfer-encoding"}


class Fault(Enum):
    """What becomes of a request."""

    BUSY = "it is answered with 503 SlowDown, and nothing is done"
    DENIED = "it is answered with 403 AccessDenied, and nothing is done"
    DELETED = "it is answered with 404 NoSuchKey, and nothing is done"
    SKEWED = "it is answered with 403 RequestTimeTooSkewed, and nothing is done"
    CUT = "the connection ends before anything is done"
    LOST = "it is done, and the connection ends without an answer"
    SLOW = "it is done after `FaultyStore.delay`"


_REFUSALS = {
    Fault.BUSY: (503, b"SlowDown"),
    Fault.DENIED: (403, b"AccessDenied"),
    Fault.DELETED: (404, b"NoSuchKey"),
    Fault.SKEWED: (403, b"RequestTimeTooSkewed"),
}


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


class FaultyStore:
    """A proxy that runs, in a process of its own: Delta's library waits for some answers while no other thread can run.

    Attributes:
        endpoint: its URL, for AWS_ENDPOINT_URL.
        choose: which requests fail; may be set anew at any time, and is then a copy of what it was set to. None fail at first.
        delay: what a slow answer takes, in seconds.

    Example:
        with faulty_store(object_store.endpoint) as faulty:
            faulty.choose = lambda request: Fault.LOST if request.writes and request.number % 3 == 0 else None
    """

    endpoint: str
    choose: Choose
    delay: float

    def __init__(self, endpoint: str) -> None:
        vars(self).update(endpoint=endpoint, choose=lambda _: None, delay=1.0)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self._tell()

    @property
    def came(self) -> list[tuple[Request, Fault | None]]:
        """Every request, and what became of it."""
        with urllib.request.urlopen(f"{self.endpoint}{_CONTROL}", timeout=30) as answer:  # noqa: S310 - our own
            return pickle.loads(answer.read())  # noqa: S301

    def count(self, fault: Fault) -> int:
        """How many requests a fault has met."""
        return sum(one is fault for _, one in self.came)

    def _tell(self) -> None:
        told = cloudpickle.dumps((self.choose, self.delay))
        request = urllib.request.Request(f"{self.endpoint}{_CONTROL}", told, method="PUT")  # noqa: S310
        with urllib.request.urlopen(request, timeout=30):  # noqa: S310
            pass


@contextmanager
def faulty_store(behind: str) -> Iterator[FaultyStore]:
    """A proxy before the store at an endpoint, while the context lasts."""
    with process_with_port([sys.executable, "-m", "tests.faulty_store", behind]) as (_, port):
        yield FaultyStore(f"http://127.0.0.1:{port}")


def main() -> int:
    """Serve until standard input ends, as it does with the process that holds its other end."""
    # By the name that others know its classes by: what is pickled names them.
    from tests import faulty_store as named  # noqa: PLC0415

    server = named._proxy(sys.argv[1])
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


def _proxy(behind: str) -> "_Server":
    numbers, lock = itertools.count(), threading.Lock()
    came: list[tuple[Request, Fault | None]] = []
    rules: list[tuple[Choose, float]] = [(lambda _: None, 1.0)]
    upstream = urlsplit(behind).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self._body()
            if self.path == _CONTROL:
                if self.command == "PUT":
                    rules[0] = pickle.loads(body)  # noqa: S301 - of the process that started this one
                self._answer(200, [], pickle.dumps(came))
                return
            conditional = any(name in self.headers for name in ("If-None-Match", "If-Match"))
            with lock:
                request = Request(next(numbers), self.command, self.path, conditional)
                choose, delay = rules[0]
                fault = choose(request)
                came.append((request, fault))
            if fault in _REFUSALS:
                status, code = _REFUSALS[fault]
                self._answer(status, [("Content-Type", "application/xml")], b"<Error><Code>%b</Code></Error>" % code)
                return
            if fault is Fault.SLOW:
                time.sleep(delay)
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

    return _Server(("127.0.0.1", 0), Handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def finish_request(self, request: Any, client_address: Any) -> None:
        with suppress(ConnectionError):
            super().finish_request(request, client_address)


if __name__ == "__main__":
    sys.exit(main())
