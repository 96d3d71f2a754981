"""Serve the protocol of `batched_enrichment` for demos and tests, with simulated failures on demand.

An event with a position is enriched with its geohash, and any other with a copy of itself; both with a checksum. With the same
seed, the same events are rejected and the same tries fail, whatever the order and concurrency of calls.
"""

import json
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, NoReturn, Self

from keyfold import KeyfoldError
from spark_jobs.jobs.batched_enrichment.protocol import KEY_HEADER, MAX_EVENTS
from spark_jobs.simulation.enrichment_service.geohash import geohash

MAX_BODY_BYTES = 32 * 2**20
MAX_ANSWERS = 1_000
"""Number of answers kept for repeated idempotency keys; the least recently used are dropped first."""

_PATHS = "there are POST /enrich and GET /stats"


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of the service.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        failure_rate: share of calls, and of events in the other calls, that fail with 503 and can be retried.
        reject_rate: share of events that are rejected with 422, always the same ones; a retry does not help.
        latency: minimum duration of a call, in seconds.
        seed: seed of the failures.
        token: bearer token of calls; if empty, calls need no token.
    """

    host: str = "127.0.0.1"
    port: int = 8077
    failure_rate: float = 0.0
    reject_rate: float = 0.0
    latency: float = 0.0
    seed: int = 0
    token: str = field(default="", repr=False)


class _RefusedError(Exception):
    """A whole call fails with this HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class _Known:
    """The state of an idempotency key: the digest of its body, the number of tries, and the answer if there is one."""

    body_digest: bytes
    tries: int = 0
    answer: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class DemoService:
    """The service, which runs on its own threads within `with`.

    Attributes:
        url: the URL to which events are POSTed.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings, self._lock = settings, threading.Lock()
        self._counts = {"calls": 0, "repeated_calls": 0, "events": 0, "in_flight_most": 0}
        self._in_flight = 0
        self._known: OrderedDict[str, _Known] = OrderedDict()
        try:
            self._server = _Server((settings.host, settings.port), _Handler)
        except (OSError, OverflowError) as error:
            raise KeyfoldError(
                f"cannot listen on {settings.host}:{settings.port} ({error}); give another --port, or 0 for a free one"
            ) from None
        self._server.service = self
        self.url = f"http://{settings.host}:{self._server.server_address[1]}/enrich"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def stats(self) -> dict[str, int]:
        """Return the answer to `GET /stats`: calls, repeated calls, processed events, and most calls in flight at a time."""
        with self._lock:
            return dict(self._counts)

    def answer(self, key: str | None, token: str, body: bytes) -> str:
        """Return the answer to a call as JSON.

        Raises:
            _RefusedError: the whole call fails.
        """
        with self._call():
            if self._settings.token and not compare_digest(token.encode(), f"Bearer {self._settings.token}".encode()):
                raise _RefusedError(401, "the bearer token is missing or wrong")
            events = _events(body)
            known = self._recall(key, sha256(body).digest())
            # One call per key at a time: a repeated call waits for the answer of the first.
            with known.lock:
                if known.answer is None:
                    known.tries += 1
                    known.answer = self._work(key or f"call {self._counts['calls']}", known.tries, events)
                else:
                    self._count("repeated_calls")
                return known.answer

    @contextmanager
    def _call(self) -> Any:
        with self._lock:
            self._counts["calls"] += 1
            self._in_flight += 1
            self._counts["in_flight_most"] = max(self._counts["in_flight_most"], self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def _count(self, name: str, more: int = 1) -> None:
        with self._lock:
            self._counts[name] += more

    def _recall(self, key: str | None, digest: bytes) -> _Known:
        """Return the state of an idempotency key; a new one if the key is unknown or dropped."""
        if key is None:
            return _Known(digest)
        with self._lock:
            known = self._known.setdefault(key, _Known(digest))
            if known.body_digest != digest:
                raise _RefusedError(422, f"this {KEY_HEADER} came before with other events")
            self._known.move_to_end(key)
            if len(self._known) > MAX_ANSWERS:
                self._known.popitem(last=False)
            return known

    def _work(self, key: str, tries: int, events: list[Any]) -> str:
        """Enrich the events, or simulate a failure."""
        time.sleep(self._settings.latency)
        if self._share("call", key, tries) < self._settings.failure_rate:
            raise _RefusedError(503, "failed on demand")
        fails = [self._share("event", key, place) < self._settings.failure_rate for place in range(len(events))]
        results = [
            {"status": 503, "error": "failed on demand"} if fail else self._result(event)
            for fail, event in zip(fails, events, strict=True)
        ]
        self._count("events", len(events) - sum(fails))
        return _json({"results": results})

    def _result(self, event: Any) -> dict[str, Any]:
        checksum = sha256(_json(event).encode("utf-8", "backslashreplace")).hexdigest()
        if self._share("reject", checksum) < self._settings.reject_rate:
            return {"status": 422, "error": "rejected on demand"}
        if not isinstance(event, dict):
            return {"status": 422, "error": "an event must be an object"}
        latitude, longitude = event.get("latitude"), event.get("longitude")
        if latitude is None and longitude is None:
            return {"status": 200, "enrichment": {"checksum": checksum, "echo": event}}
        try:
            place = geohash(latitude, longitude)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return {"status": 422, "error": "latitude must be -90 to 90 degrees and longitude -180 to 180"}
        return {"status": 200, "enrichment": {"checksum": checksum, "geohash": place}}

    def _share(self, *words: object) -> float:
        """Return a number in [0, 1) that depends only on the seed and the words."""
        digest = sha256(repr((self._settings.seed, *words)).encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48


class _Server(ThreadingHTTPServer):
    service: DemoService
    request_queue_size = 128

    def server_bind(self) -> None:
        # HTTPServer.server_bind looks up this machine's name in the network, which may take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: errors here are connections that the caller has closed."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = 2**16
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == "/stats":
            self._send(200, _json(self.server.service.stats()))
        else:
            self._refuse(404, _PATHS)

    def do_POST(self) -> None:
        if self.path != "/enrich":
            self.close_connection = True
            self._refuse(404, _PATHS)
            return
        try:
            key, token = self.headers.get(KEY_HEADER), self.headers.get("Authorization", "")
            text = self.server.service.answer(key, token, self._body())
        except _RefusedError as error:
            self._refuse(error.status, str(error))
        else:
            self._send(200, text)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            self.close_connection = True
            raise _RefusedError(411, "the call must say its Content-Length")
        if len(length) > 12 or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            # Read a part of the body: if it is unread when the connection closes, the caller may not get the answer.
            for _ in range(32):
                self.rfile.read(min(2**20, int(length[:12])))
            raise _RefusedError(413, f"the body has more than {MAX_BODY_BYTES:,} bytes")
        return self.rfile.read(int(length))

    def _refuse(self, status: int, reason: str) -> None:
        self._send(status, _json({"status": status, "error": reason}))

    def _send(self, status: int, text: str) -> None:
        content = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, since calls contain events, which may be private."""


def _events(body: bytes) -> list[Any]:
    try:
        content = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise _RefusedError(400, "the body is not JSON") from None
    events = content.get("events") if isinstance(content, dict) else None
    if not isinstance(events, list):
        raise _RefusedError(400, "the body must be an object with a list of events")
    if len(events) > MAX_EVENTS:
        raise _RefusedError(413, f"{len(events):,} events; a call takes at most {MAX_EVENTS:,}")
    return events


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
